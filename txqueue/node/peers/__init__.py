"""The other masters that a node is connected to, and the work that moves between them."""
