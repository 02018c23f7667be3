"""Files and folders: written whole or not at all, locked, decoded by type; shared by all rooms."""

from bertfeat.io.atomic import atomic, refuse_folder_path, remove_file, storage_errors, sync
from bertfeat.io.json_codec import (
    JsonError,
    JsonForm,
    canonical_json,
    decode_json,
    encode_json,
    from_plain,
    to_plain,
)
from bertfeat.io.json_file import JsonFormat, write_json
from bertfeat.io.lock import LockOwner, folder_lock
from bertfeat.io.malloc import give_back_memory, keep_freed_memory
from bertfeat.io.messages import quote_names, shorten
from bertfeat.io.prefetch import prefetched
from bertfeat.io.regular import open_regular, read_regular, real_path
from bertfeat.io.result_folder import (
    STATE_FOLDER,
    ResultKind,
    claim_folder,
    is_own_part,
    make_state_folder,
    refuse_other_kind,
    release_folder,
    result_kind,
)
from bertfeat.io.timing import recorded_stages, stage

__all__ = [
    "STATE_FOLDER",
    "JsonError",
    "JsonForm",
    "JsonFormat",
    "LockOwner",
    "ResultKind",
    "atomic",
    "canonical_json",
    "claim_folder",
    "decode_json",
    "encode_json",
    "folder_lock",
    "from_plain",
    "give_back_memory",
    "is_own_part",
    "keep_freed_memory",
    "make_state_folder",
    "open_regular",
    "prefetched",
    "quote_names",
    "read_regular",
    "real_path",
    "recorded_stages",
    "refuse_folder_path",
    "refuse_other_kind",
    "release_folder",
    "remove_file",
    "result_kind",
    "shorten",
    "stage",
    "storage_errors",
    "sync",
    "to_plain",
    "write_json",
]
