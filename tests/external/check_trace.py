"""Checks a trace of ddo-analyze with Perfetto's own message definitions, which know nothing of this project.

    check_trace.py TRACE [JOURNAL]

Proves: every event refers to what was described before it, slices nest and all end, arrows run forward through named
windows, deltas are differences of their counters. With the journal folder: the trace has every complete window of
`reports/final.json` with its recorded length, and no other. Needs the packages `perfetto` and `protobuf`.
"""

import collections
import json
import pathlib
import sys

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import CounterDescriptor, Trace, TrackEvent

CLEARED, NEEDED, BOOTTIME = 1, 2, 6
CHAIN = ["upload_batch_window", "compute_upload_dependency", "execution_unit_window"]

Slice = collections.namedtuple("Slice", "track start end depth name category flows")


class Decoded:
    """Tracks, slices, counter points and instants of a trace, and what is wrong with it."""

    def __init__(self, path):
        self.errors, self.tracks, self.slices, self.instants = [], {}, [], []
        self.points = collections.defaultdict(list)
        self.flows = collections.defaultdict(list)
        self.attributes = {}
        self._names, self._open = collections.defaultdict(dict), collections.defaultdict(list)
        self._last = self._events = 0
        trace = Trace()
        trace.ParseFromString(pathlib.Path(path).read_bytes())
        if not trace.packet:
            self.wrong("the trace has no packet")
        for at, packet in enumerate(trace.packet):
            self.packet(at, packet)
        for track, open_slices in self._open.items():
            if open_slices:
                self.wrong(f"{len(open_slices)} slices never end on {self.path(track)}")

    def wrong(self, text):
        self.errors.append(text)

    def path(self, uuid):
        """Names from the process down to a track."""
        words, seen = [], set()
        while uuid in self.tracks and uuid not in seen:
            seen.add(uuid)
            track = self.tracks[uuid]
            words.insert(0, track.name or track.process.process_name)
            uuid = track.parent_uuid
        return " > ".join(words) or f"track {uuid}"

    def interned(self, kind, iid, what):
        if iid not in self._names[kind]:
            self.wrong(f"{what}: {kind} {iid} is not interned")
        return self._names[kind].get(iid, "?")

    def packet(self, at, packet):
        if packet.trusted_packet_sequence_id != 1:
            self.wrong(f"packet {at}: sequence {packet.trusted_packet_sequence_id}, not 1")
        if packet.sequence_flags != (CLEARED | NEEDED if at == 0 else NEEDED):
            self.wrong(f"packet {at}: sequence flags {packet.sequence_flags}")
        if at == 0 and packet.trace_packet_defaults.timestamp_clock_id != BOOTTIME:
            self.wrong("the first packet does not set the default clock")
        for field, entries in packet.interned_data.ListFields():
            for entry in entries:
                text = entry.name if hasattr(entry, "name") else entry.str.decode()
                if entry.iid == 0 or entry.iid in self._names[field.name] or not text:
                    self.wrong(f"{field.name}: {entry.iid} {text!r} is zero, defined twice or empty")
                self._names[field.name][entry.iid] = text
        for attribute in packet.trace_attributes.attribute:
            value = attribute.WhichOneof("value")
            self.attributes[attribute.key] = getattr(attribute, value) if value else None
        if packet.HasField("track_descriptor"):
            self.describe(packet.track_descriptor)
        if packet.HasField("track_event"):
            self.event(at, packet)

    def describe(self, track):
        if self._events:
            self.wrong(f"track {track.uuid} is described after the first event")
        if track.uuid == 0 or track.uuid in self.tracks:
            self.wrong(f"track uuid {track.uuid} is zero or described twice")
        root = track.HasField("process")
        if root == bool(track.parent_uuid) or (not root and track.parent_uuid not in self.tracks):
            self.wrong(f"track {track.uuid} {track.name!r}: parent {track.parent_uuid} is not described before it")
        if not (track.process.process_name if root else track.name):
            self.wrong(f"track {track.uuid} has no name")
        self.tracks[track.uuid] = track

    def event(self, at, packet):
        event, time, what = packet.track_event, packet.timestamp, f"packet {at}"
        self._events += 1
        if event.track_uuid not in self.tracks:
            self.wrong(f"{what}: track {event.track_uuid} is not described")
            return
        if time < max(1, self._last):
            self.wrong(f"{what}: time {time} after {self._last}")
        self._last = time
        is_counter = self.tracks[event.track_uuid].HasField("counter")
        if is_counter != (event.type == TrackEvent.TYPE_COUNTER):
            self.wrong(f"{what}: event type {event.type} on {self.path(event.track_uuid)}")
        if is_counter:
            self.points[event.track_uuid].append((time, event.counter_value))
            return
        stack = self._open[event.track_uuid]
        if event.type == TrackEvent.TYPE_SLICE_END:
            if not stack:
                self.wrong(f"{what}: an end without a begin on {self.path(event.track_uuid)}")
                return
            begun = stack.pop()
            self.slices[begun] = self.slices[begun]._replace(end=time)
            return
        name = event.name or self.interned("event_names", event.name_iid, what)
        categories = [self.interned("event_categories", iid, what) for iid in event.category_iids]
        for note in event.debug_annotations:
            self.interned("debug_annotation_names", note.name_iid, what)
            if note.WhichOneof("value") == "string_value_iid":
                self.interned("debug_annotation_string_values", note.string_value_iid, what)
        if event.type == TrackEvent.TYPE_INSTANT:
            self.instants.append((event.track_uuid, time, name))
        elif event.type == TrackEvent.TYPE_SLICE_BEGIN:
            for ends, ids in ((False, event.flow_ids), (True, event.terminating_flow_ids)):
                for flow in ids:
                    self.flows[flow].append((len(self.slices), ends))
            category = categories[0] if categories else ""
            self.slices.append(Slice(event.track_uuid, time, None, len(stack), name, category, len(event.flow_ids)))
            stack.append(len(self.slices) - 1)
        else:
            self.wrong(f"{what}: event type {event.type}")


def check_flows(trace):
    for flow, stops in trace.flows.items():
        slices = [trace.slices[at] for at, _ in stops]
        if [ends for _, ends in stops] != [False] * (len(stops) - 1) + [True]:
            trace.wrong(f"arrow {flow} does not end exactly at its last slice")
        if [one.category for one in slices] != CHAIN or len({one.name for one in slices}) != 1:
            trace.wrong(f"arrow {flow} joins {[(one.category, one.name) for one in slices]}")


def check_counters(trace):
    values = {(track.parent_uuid, track.name): uuid for uuid, track in trace.tracks.items() if uuid in trace.points}
    suffix = ", added by the step"
    for (parent, name), uuid in values.items():
        if not name.endswith(suffix):
            continue
        whole = trace.points[values[parent, name.removesuffix(suffix)]]
        differences = {now[0]: now[1] - before[1] for before, now in zip(whole, whole[1:])}
        # Seconds are rounded to nanoseconds one by one.
        slack = 1 if trace.tracks[uuid].counter.unit == CounterDescriptor.UNIT_TIME_NS else 0
        for time, value in trace.points[uuid]:
            if time not in differences or abs(differences[time] - value) > slack:
                trace.wrong(f"{trace.path(uuid)}: {value} at {time} is not the difference of its counter")


def check_journal(trace, journal):
    report = json.loads((pathlib.Path(journal) / "reports" / "final.json").read_text())
    timeline = report["runtime"]["native_timeline"]
    wanted = collections.Counter()
    for sample in timeline["samples"]:
        if sample["status"] == "complete":
            nanoseconds = [round(sample[edge] * 1e9) for edge in ("start_seconds", "end_seconds")]
            wanted[sample["kind"], nanoseconds[1] - nanoseconds[0]] += 1
    kinds = {kind for kind, _ in wanted}
    drawn = collections.Counter((one.category, one.end - one.start) for one in trace.slices if one.category in kinds)
    for kind, length in (wanted - drawn) | (drawn - wanted):
        trace.wrong(f"{kind} of {length} ns: {wanted[kind, length]} recorded, {drawn[kind, length]} drawn")
    names = {one.name for one in trace.slices if one.category in CHAIN}
    if not names <= set(timeline["execution_units"].values()):
        trace.wrong(f"windows are named {sorted(names)}; the report has {timeline['execution_units']}")
    check_records(trace, pathlib.Path(journal) / "snapshots")
    return sum(wanted.values())


def check_records(trace, snapshots):
    """Counters show what the records of the only component say, record by record."""
    records = [json.loads(path.read_text()) for path in snapshots.glob("*/*.json")]
    records.sort(key=lambda record: -1 if record["step_index"] is None else record["step_index"])
    fields = [record["metrics"]["runtime"]["vmm"] for record in records]
    for uuid, points in trace.points.items():
        name = trace.tracks[uuid].name
        values = [record[name] for record in fields if name in record]
        whole = [round(value * 1e9) if name.endswith("_seconds") else value for value in values]
        if values and whole != [value for _, value in points]:
            trace.wrong(f"{trace.path(uuid)}: {points} drawn, {whole} recorded")


def main(arguments):
    trace = Decoded(arguments[0])
    text = f"{len(trace.tracks)} tracks, {len(trace.slices)} slices, {len(trace.flows)} arrows, {len(trace.points)} counters"
    if not trace.errors:
        check_flows(trace)
        check_counters(trace)
        if len(arguments) > 1:
            text += f", {check_journal(trace, arguments[1])} recorded windows"
    if not (trace.slices and trace.flows and trace.points):
        trace.wrong(f"something is missing: {text}")
    for error in trace.errors[:20]:
        print(f"check_trace: {error}", file=sys.stderr)
    print(f"check_trace: {text}; {len(trace.errors)} errors")
    return 1 if trace.errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) if len(sys.argv) in (2, 3) else __doc__)
