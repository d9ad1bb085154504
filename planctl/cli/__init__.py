"""The command line: translates words into operations and changes into text. The only place with typer and rich."""
