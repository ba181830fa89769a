"""Prints the events of event_file_test.cpp, in hexadecimal, as TensorBoard's classes write them.

Needs PyPI's tensorboard: pip install tensorboard; python make_events.py
"""
import io

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.record_writer import RecordWriter


class Kept(io.BytesIO):
    def flush(self):
        pass


def value(tag, x):
    return summary_pb2.Summary.Value(tag=tag, simple_value=x)


file = Kept()
writer = RecordWriter(file)
for event in (
    event_pb2.Event(wall_time=1700000000.5, file_version="brain.Event:2"),
    event_pb2.Event(wall_time=1700000001.25, step=300, session_log=event_pb2.SessionLog(
        status=event_pb2.SessionLog.START)),
    event_pb2.Event(wall_time=1700000002.0, summary=summary_pb2.Summary(
        value=[value("step/rate", 0.1), value("step/loss_scale", 0.0)])),
    event_pb2.Event(wall_time=1700000003.0, step=2**40, summary=summary_pb2.Summary(
        value=[value("epoch/train_loss", float("nan")), value("t" * 200, -1e30)])),
):
    writer.write(event.SerializeToString(deterministic=True))
text = file.getvalue().hex()
print("\n".join(text[i:i + 88] for i in range(0, len(text), 88)))
