"""The addresses over HTTP. All of them work as plain forms and links, too."""
