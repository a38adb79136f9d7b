"""What several tests of the client are made with: a wire that records and cuts, and cancellation at each step."""
