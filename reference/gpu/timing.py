"""Clocks of measure.py: how long the GPU works, and how long a program waits for it."""
import statistics
import time

import torch


def set_precision(precision):
    """The element type of `precision`; says whether fp32 products may use tensor cores."""
    tf32 = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    return {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)


class Clock:
    """Medians over rounds. On a CPU (a test of the program, and no measurement) by wall time."""

    def __init__(self, device, rounds):
        self.device, self.rounds = device, rounds
        self.cuda = device.type == "cuda"

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()

    def _between(self, work, queue_first):
        """Milliseconds from one event to another with `work` between them."""
        if not self.cuda:
            start = time.perf_counter()
            work()
            return 1e3 * (time.perf_counter() - start)
        torch.cuda.synchronize()
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        if queue_first:
            torch.cuda._sleep(40_000_000)  # 20 ms at 2 GHz, in which the host queues all the work
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end)

    def kernel_us(self, calls, least_calls=20):
        """One call's time on the GPU, its launches queued before, so that the host is not seen.

        `calls` are the same work on memory of their own, taken in turn: what fits in a cache is
        not found there again.
        """
        again = max(1, -(-least_calls // len(calls)))

        def work():
            for _ in range(again):
                for call in calls:
                    call()

        work()  # choice of algorithms, allocations
        times = [self._between(work, True) for _ in range(self.rounds)]
        return 1e3 * statistics.median(times) / (again * len(calls))

    def once_us(self, call, count):
        """The same once, with what other streams are given now running beside it."""
        return 1e3 * self._between(lambda: [call() for _ in range(count)], True) / count

    def step_ms(self, step):
        """One call's time as a program sees it that waits for each to end."""
        for _ in range(3):
            step()
        return statistics.median(self._between(step, False) for _ in range(self.rounds))

    def graph_ms(self, step):
        """One replay of a captured graph: the GPU alone. None on a CPU."""
        if not self.cuda:
            return None
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        for _ in range(2):
            graph.replay()
        return statistics.median(
            self._between(graph.replay, False) for _ in range(self.rounds))
