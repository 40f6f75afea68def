"""Other ways to run the same graph of calls, each with the client that suits it best."""
