"""One trial: commands over a small corpus that are disturbed, started again until they are done, and judged."""

import random
import re
import shutil
import time
from signal import SIGUSR1

from _torture_corpus import KINDS, Corpus, change_corpus, file_bytes, make_corpus
from _torture_places import BucketFolder, Folder, Place, differences, is_part, part_count, set_content
from _torture_records import Fault, Lane, Record, Undisturbed
from _torture_runs import HOST, Crew, Run, start_run
from _torture_ways import Way, undisturbed_command

MOST_ATTEMPTS = 9
BUCKET = "torture"
ROWS_FAILED = 3
_MESSAGE = re.compile(r"^error: (.*(?:\n  .*)*)", re.MULTILINE)
_OWNER = re.compile(r"process \d+ on \S+ since [0-9T:+-]+")


class Trial:
    """One way, one fault, and draws of their own."""

    def __init__(self, lane: Lane, way: Way, store: str, fault: str, number: int, seed: int) -> None:
        self.lane, self.way, self.store = lane, way, store
        self.record = Record(f"{way.name}-{store}/{fault}/{number}")
        self.draw = draw = random.Random(f"{seed}/{self.record.name}")
        self.kind = draw.choice(KINDS)
        self.corpus: Corpus = make_corpus(self.kind, random.Random(self.kind))
        self.part_rows = 10
        self.books_at = draw.choice(("local", store))
        self.books = self._place(self.books_at, f"books-{self.kind}")
        self.base = self._place(store, f"trial-{self.record.name.replace('/', '-')}")
        self.lease = round(draw.uniform(1, 2), 2)
        self.elsewhere = draw.random() < 0.5  # whether each process seems to run on a machine of its own
        self.settings = {"BERTFEAT_LEASE": str(self.lease), "BERTFEAT_STORAGE_TIMEOUT": "60"}
        self.done_roles: set[str] = set()
        self.updates = False  # whether a run said that the corpus has changed: whoever reads that says so
        self.switched = False  # whether one process goes on with what joined ones began, or the other way round
        self.with_sources = True  # whether the names of the corpus's files are compared
        self.may_differ = False  # whether the corpus was changed, so that a run may have seen either state
        self._seen_parts: set[str] = set()
        self._seen_requests = self._processes = 0
        self._log_folder = lane.folder / "logs"

    @property
    def target(self) -> Place:
        """The folder of the whole set."""
        return self.base / "whole.features"

    def run(self, fault: Fault) -> Record:
        """Disturb and repeat until it is done, and judge what is there."""
        began = time.monotonic()
        try:
            self._begin()
            fault.prepare(self)
            self._repeat(fault)
        finally:
            fault.finish(self)
            self.record.seconds = round(time.monotonic() - began, 1)
            self._remove()
        record = self.record
        record.outcome = "WRONG" if record.wrong else "clear error, clean resume" if record.messages else "right bytes"
        return record

    def _begin(self) -> None:
        shutil.rmtree(self._log_folder, ignore_errors=True)
        for folder in (self._log_folder, self.lane.temporary, self.lane.disk):
            folder.mkdir(parents=True, exist_ok=True)
        self.lane.server.forget()
        self.put_corpus(self.corpus)
        self.expected = self.reference(f"{self.kind} {self.books_at}")

    def _repeat(self, fault: Fault) -> None:
        record, again = self.record, False
        while record.attempts < MOST_ATTEMPTS and not record.wrong:
            crew = self.start(fault)
            try:
                fault.strike(self, crew)
                if not crew.wait(self.way.limit):
                    self._tell_hang(crew)
            finally:
                crew.end()
            done = self.judge(crew)
            again = fault.between(self, done=done)
            if done and not again and not record.wrong and self.compare(fault):
                return
            time.sleep(self.draw.uniform(0, 0.2))
        if not record.wrong:
            record.wrong.append(f"not done after {record.attempts} attempts")

    # ── processes ───────────────────────────────────────────────────────────────────────────────────────────

    def start(self, fault: Fault) -> Crew:
        """Start the processes of the next attempt."""
        crew = Crew()
        for role, command in self.way.commands(self, self.record.attempts):
            self.add(crew, role, [*command, "--update"] if self.updates and "extract" in command else command, fault)
        self.record.attempts += 1
        return crew

    def add(self, crew: Crew, role: str, command: list[str], fault: Fault | None = None) -> Run:
        """Start another process."""
        self._processes += 1
        environment = {**self.lane.server.environment, "TMPDIR": str(self.lane.temporary), **self.settings}
        if self.elsewhere:
            environment[HOST] = f"machine-{self._processes}"
        if fault:
            environment |= fault.environment(role)
        run = start_run(role, command, environment, self._log_folder / f"{self._processes:03}.log")
        crew.runs.append(run)
        return run

    def judge(self, crew: Crew) -> bool:
        """Look at how the processes of an attempt have ended; whether the set is done."""
        done = False
        for run in crew.runs:
            code, text = run.process.exitcode, run.text
            good = {0, ROWS_FAILED} if self.may_differ else {self.expected.code}
            errors = _MESSAGE.findall(text)
            if "Traceback" in text or "bug in bertfeat" in text:
                self.record.wrong.append(f"{run.role}: no clear error: {text[-1500:]}")
            elif code in good:
                self.done_roles.add(run.role)
                done = True
            elif (code, run.harmed) in ((-9, "killed"), (143, "terminated"), (-15, "terminated")):
                pass
            elif code == 1 and errors:
                self.record.messages.append(f"{run.role}: {self.shorten(errors[-1])}")
                self.updates |= "--update makes" in errors[-1]
            else:
                self.record.wrong.append(f"{run.role} ended with {code}: {text[-1500:]}")
        return done

    def _tell_hang(self, crew: Crew) -> None:
        for run in crew.alive:
            run.send(SIGUSR1)  # it writes where its threads are
        time.sleep(1)
        self.record.wrong += [f"{run.role} hangs: {run.text[-6000:]}" for run in crew.alive]
        for run in crew.alive:
            run.harmed = "killed"

    def shorten(self, message: str) -> str:
        """A message without the names of folders of this machine."""
        text = message.replace(str(self.base), "BASE").replace(str(self.lane.folder), "LANE")
        return " ".join(_OWNER.sub("process N", text).split())[:300]

    # ── moments ─────────────────────────────────────────────────────────────────────────────────────────────

    def parts_seen(self) -> int:
        """How many parts have been written since the trial began."""
        if self.store == "local":
            return part_count(self.base)
        requests = self.lane.server.requests
        for request in requests[self._seen_requests :]:
            if request.kind in ("put", "create") and is_part(request.name) and request.status == 200:
                self._seen_parts.add(request.name)
            self._seen_requests += 1
        return len(self._seen_parts)

    def wait_for_moment(self, crew: Crew) -> None:
        """Wait for a random moment of an attempt: by the clock, at a part, or while one is being written."""
        kind, draw = self.draw.choice(("time", "part", "part", "writing")), self.draw
        if kind == "time":
            crew.wait(draw.uniform(0, 0.7 * self.way.seconds * self.lane.pace))
            return
        before, parts = self.parts_seen(), sum(map(is_part, self.expected.content))
        wanted = before + draw.randrange(0, max(1, parts - before))
        crew.wait(self.way.limit, lambda: self.parts_seen() >= wanted)
        if kind == "writing":
            crew.wait(self.way.seconds, self._is_writing)
        crew.wait(draw.uniform(0, 0.06))

    def _is_writing(self) -> bool:
        if isinstance(self.base, Folder):
            return next(self.base.path.rglob(".*.tmp"), None) is not None
        return next(self.lane.temporary.glob("bertfeat-upload-*"), None) is not None

    # ── what is there ───────────────────────────────────────────────────────────────────────────────────────

    def reference(self, key: str = "") -> Undisturbed:
        """What one undisturbed process gives of the corpus as it is; with a key it is known from then on."""
        if key in self.lane.undisturbed:
            return self.lane.undisturbed[key]
        base, self.base = self.base, Folder(self.lane.folder / "undisturbed")
        shutil.rmtree(self.base.path, ignore_errors=True)
        crew = Crew()
        run = self.add(crew, "run", undisturbed_command(self))
        crew.wait(self.way.limit)
        self.lane.pace = time.monotonic() - run.began
        code = run.process.exitcode
        if code not in (0, ROWS_FAILED):
            raise RuntimeError(f"the undisturbed run ended with {code}: {run.text}")
        content = set_content(self.target, sources=self.with_sources)
        found = Undisturbed(content, code, tuple(len(self.target.read(name)) for name in content))
        self.base = base
        if key:
            self.lane.undisturbed[key] = found
        return found

    def compare(self, fault: Fault) -> bool:
        """Compare the set with the undisturbed one, and verify it; False if a damage is told and can be mended."""
        found = set_content(self.target, sources=self.with_sources)
        differing = differences(found, self.expected.content)
        verdict = self.verify()
        if differing and verdict and fault.mends:
            self.record.messages.append(f"verify: {verdict}")
            fault.mend(self)
            return False
        if differing or verdict:
            self.record.wrong.append(f"other bytes: {', '.join(differing) or 'none'}; verify: {verdict or 'sound'}")
        self.record.left += sorted(found.keys() - self.expected.content.keys())
        return True

    def verify(self) -> str:
        """What ``bertfeat verify`` finds fault with."""
        crew = Crew()
        run = self.add(crew, "verify", ["bertfeat", "verify", str(self.target), "--sample", "0"])
        if not crew.wait(60):
            crew.end()
        if run.process.exitcode == 0:
            return ""
        return self.shorten("; ".join(_MESSAGE.findall(run.text)) or f"{run.process.exitcode}: {run.text[-1000:]}")

    def change_corpus(self) -> None:
        """Bring the corpus into another state, in which it stays until the trial ends."""
        how, corpus = change_corpus(self.corpus, self.draw)
        self.record.notes.append(how)
        self.with_sources = how not in ("file added", "file removed")
        self.may_differ = True
        self.put_corpus(corpus)
        if how == "touched":
            name = min(corpus)
            self.books.write(name, self.books.read(name))

    def put_corpus(self, corpus: Corpus) -> None:
        """Have the corpus in its place; only files that are other ones are written."""
        there = set(self.books.names())
        for name, rows in corpus.items():
            content = file_bytes(name, rows)
            if name not in there or self.books.read(name) != content:
                self.books.write(name, content)
        for name in there - corpus.keys():
            self.books.remove(name)

    def _place(self, store: str, name: str) -> Place:
        if store == "local":
            return Folder(self.lane.folder / name)
        return BucketFolder(self.lane.client, BUCKET, name)

    def _remove(self) -> None:
        if isinstance(self.base, Folder):
            shutil.rmtree(self.base.path, ignore_errors=True)
        else:
            for name in self.base.names():
                self.base.remove(name)
        shutil.rmtree(self.lane.temporary, ignore_errors=True)
