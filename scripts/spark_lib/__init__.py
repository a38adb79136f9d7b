"""What scripts/spark-cluster is made of."""
