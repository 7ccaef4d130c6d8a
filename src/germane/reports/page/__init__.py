"""Write a report as one HTML file that opens from disk, without a server."""
