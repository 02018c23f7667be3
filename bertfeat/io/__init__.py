"""Files and folders: written whole or not at all, locked, decoded by type; what every room needs and no room owns."""

from bertfeat.io.atomic import atomic, refuse_folder, remove, sync, writing
from bertfeat.io.json_file import JsonError, decode_json, encode_json, read_json, read_version, write_json
from bertfeat.io.lock import LockOwner, locked
from bertfeat.io.malloc import give_back_memory, keep_freed_memory
from bertfeat.io.prefetch import prefetched
from bertfeat.io.regular import open_regular, read_regular, real_path
from bertfeat.io.result_folder import STATE, Kind, claim, forsake, is_own_part, kind_of, refuse_other_kind, state_folder
from bertfeat.io.timing import recorded_stages, stage

__all__ = [
    "STATE",
    "JsonError",
    "Kind",
    "LockOwner",
    "atomic",
    "claim",
    "decode_json",
    "encode_json",
    "forsake",
    "give_back_memory",
    "is_own_part",
    "keep_freed_memory",
    "kind_of",
    "locked",
    "open_regular",
    "prefetched",
    "read_json",
    "read_regular",
    "read_version",
    "real_path",
    "recorded_stages",
    "refuse_folder",
    "refuse_other_kind",
    "remove",
    "stage",
    "state_folder",
    "sync",
    "write_json",
    "writing",
]
