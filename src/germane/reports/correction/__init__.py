"""How labels were drawn, and what that makes of differences between two systems."""
