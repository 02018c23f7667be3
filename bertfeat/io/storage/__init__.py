"""Local folders and object storage behind one narrow interface: :class:`Store`, and the places in it."""

from bertfeat.io.storage.address import Address, Location, as_location, is_address
from bertfeat.io.storage.files import (
    NewFile,
    create_file,
    file_identity,
    file_stamp,
    list_files,
    open_each,
    open_file,
    put_file,
    read_file,
    remove_stored,
    remove_stored_folder,
    replace_file,
    store_of,
)
from bertfeat.io.storage.lease import Claim, Lease, LeaseWatch, lease_seconds, read_claim
from bertfeat.io.storage.store import Stamp, Store, StoredFile

__all__ = [
    "Address",
    "Claim",
    "Lease",
    "LeaseWatch",
    "Location",
    "NewFile",
    "Stamp",
    "Store",
    "StoredFile",
    "as_location",
    "create_file",
    "file_identity",
    "file_stamp",
    "is_address",
    "lease_seconds",
    "list_files",
    "open_each",
    "open_file",
    "put_file",
    "read_claim",
    "read_file",
    "remove_stored",
    "remove_stored_folder",
    "replace_file",
    "store_of",
]
