"""What agents may do by the Model Context Protocol: the tools, and the server that offers them."""
