"""What loaders do with data sets: collate, fetch, and the processes that do both."""
