"""What a node does for the database: rotates lanes, archives history, reconnects."""
