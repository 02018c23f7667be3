"""Local folders and object storage behind one narrow interface: a store, and the places in it."""
