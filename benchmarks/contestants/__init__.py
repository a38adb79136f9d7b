"""What is timed, one module for each contestant; each run of one is a process of its own."""
