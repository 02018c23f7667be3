"""The tasks that heads learn: a file each, and the table that lists them."""
