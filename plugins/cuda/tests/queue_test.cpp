// Queues: events, copies through staging memory, and errors, in every order of the double.
#include <gx/cuda/queue.hpp>

#include <cstdint>  // uint64_t
#include <numeric>  // iota
#include <string>   // sentences
#include <utility>  // exchange
#include <vector>   // the host's memory

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/cuda/error.hpp>            // device_count
#include <gx/cuda/launch.hpp>           // launch
#include <gx/cuda_testing/runtime.hpp>  // reset, counters, Misuse
#include <gx/memory/queued_device.hpp>  // DeviceQueue

#include <support/files.hpp>  // error_of, holds

namespace {

using namespace gx;
using cuda::DeviceContext;
using cuda::Queue;
using cuda_testing::StreamProgress;
using testing_support::error_of;
using testing_support::holds;
using View = ViewIn<float, cuda::GpuMemory>;

// ---- What the types promise --------------------------------------------------------------------

static_assert(gx::Memory<cuda::GpuMemory> && DeviceQueue<Queue>);
static_assert(DeviceKernel<kernels::Scale>);

// ---- Cases -------------------------------------------------------------------------------------

constexpr StreamProgress all_progress[] = {StreamProgress::late, StreamProgress::eager,
                                           StreamProgress::random};

/// Calls f in each way to run work, under some seeds, on a context of GPU 1.
template <class F>
void in_all_orders(F f) {
    for (const StreamProgress progress : all_progress)
        for (const std::uint64_t seed : {1, 2, 3}) {
            cuda_testing::reset({.seed = seed, .progress = progress});
            {
                DeviceContext gpu(1);
                f(gpu);
            }
            cuda_testing::expect_clean();
        }
}
std::vector<float> ramp(std::size_t count, float begin = 0) {
    std::vector<float> v(count);
    std::iota(v.begin(), v.end(), begin);
    return v;
}
View view(Buffer<float>& b) { return b.view<cuda::GpuMemory>(); }
ViewIn<const float, cuda::GpuMemory> read_view(Buffer<float>& b) { return view(b); }
std::span<const float> read(const std::vector<float>& v) { return v; }

TEST(Queue, CopiesInComputesAndCopiesOut) {
    in_all_orders([](DeviceContext& gpu) {
        Queue queue(gpu, "compute");
        Buffer<float> b(&gpu.memory(), 100, "values");
        std::vector<float> here = ramp(100), back(100, -1.0f);
        queue.copy_in(read(here), view(b), {"in"});
        here.assign(100, 7.0f);  // was copied
        launch(queue, kernels::Scale{2}, view(b));
        queue.copy_out(ViewIn<const float, cuda::GpuMemory>(view(b)), std::span(back), {"out"});
        EXPECT_TRUE(queue.wait(queue.record()).complete());
        queue.host_reads(read(back), {"read"});
        for (std::size_t i = 0; i < 100; ++i) ASSERT_EQ(back[i], 2 * float(i));
    });
}

TEST(Queue, OrdersQueuesByEvents) {
    in_all_orders([](DeviceContext& gpu) {
        Queue first(gpu, "first"), second(gpu, "second");
        Buffer<float> b(&gpu.memory(), 50, "values");
        std::vector<float> here = ramp(50), back(50);
        for (int round = 0; round < 4; ++round) {
            first.copy_in(read(here), view(b), {"in"});
            second.wait_for(first.record());
            launch(second, kernels::Scale{3}, view(b));
            first.wait_for(second.record());
            first.copy_out(ViewIn<const float, cuda::GpuMemory>(view(b)), std::span(back), {"out"});
            EXPECT_TRUE(first.wait(first.record()).complete());
            for (std::size_t i = 0; i < 50; ++i) ASSERT_EQ(back[i], 3 * float(i));
        }
    });
}

// An event of another queue that is behind a copy hands the copy over.
TEST(Queue, HandsOverCopiesBehindEventsOfOtherQueues) {
    in_all_orders([](DeviceContext& gpu) {
        Queue first(gpu, "first"), second(gpu, "second");
        Buffer<float> b(&gpu.memory(), 50, "values");
        std::vector<float> back(50, -1.0f);
        first.copy_in(read(ramp(50)), view(b), {"in"});
        first.copy_out(ViewIn<const float, cuda::GpuMemory>(view(b)), std::span(back), {"out"});
        second.wait_for(first.record());
        EXPECT_TRUE(second.wait(second.record()).complete());
        EXPECT_EQ(back, ramp(50));
    });
}

/// The event behind the copy is not reached yet: the host has the values of no earlier time.
TEST(Queue, HandsOverNoCopyThatWaitsForWork) {
    cuda_testing::reset({.progress = StreamProgress::late});
    DeviceContext gpu(0);
    Queue first(gpu, "first"), second(gpu, "second");
    Buffer<float> b(&gpu.memory(), 50, "values");
    std::vector<float> back(50, -1.0f);
    first.copy_in(read(ramp(50)), view(b), {"in"});
    first.copy_out(read_view(b), std::span(back), {"out"});
    EXPECT_TRUE(second.wait(second.record()).complete());
    EXPECT_EQ(back, std::vector<float>(50, -1.0f));
    EXPECT_TRUE(first.wait(first.record()).complete());
    EXPECT_EQ(back, ramp(50));
}
/// The pool has two events: that of the copy is recorded anew by the time that its queue is asked.
TEST(Queue, HandsOverCopiesWhoseEventWasOverwritten) {
    in_all_orders([](DeviceContext& gpu) {
        Queue first(gpu, "first", {.events = 2}), second(gpu, "second");
        Buffer<float> b(&gpu.memory(), 50, "values");
        std::vector<float> back(50, -1.0f);
        first.copy_out(read_view(b), std::span(back), {"out"});
        second.wait_for(first.record());
        (void)first.record();
        EXPECT_TRUE(second.wait(second.record()).complete());
        EXPECT_EQ(back, std::vector<float>(50));
    });
}
/// With one event a queue has room for one copy, whose target is free once it has the values.
TEST(Queue, LetsTheHostReadWhatOneCopyBrought) {
    in_all_orders([](DeviceContext& gpu) {
        Queue queue(gpu, "compute", {.events = 1});
        Buffer<float> b(&gpu.memory(), 4, "values");
        std::vector<float> back(4, -1.0f);
        queue.copy_out(read_view(b), std::span(back), {"out"});
        EXPECT_TRUE(queue.wait(queue.record()).complete());
        queue.host_reads(read(back), {"in time"});
        Queue second(gpu, "second");
        EXPECT_TRUE(second.wait(second.record()).complete()) << "nothing is left to hand over";
    });
}

TEST(Queue, KnowsNoEventsThatWereNotRecorded) {
    cuda_testing::reset({});
    DeviceContext gpu(0);
    Queue a(gpu, "a"), b(gpu, "b");
    b.wait_for({});
    EXPECT_TRUE(b.wait({}).complete());
    EXPECT_DEATH(b.wait_for({1, 0}), "an event that was recorded");
    EXPECT_DEATH((void)b.wait({1, 0}), "an event that was recorded");
    EXPECT_DEATH(b.wait_for({1, 2}), "an event of this rank's queues");
    EXPECT_DEATH((void)b.wait({1, 2}), "an event of this rank's queues");
    EXPECT_DEATH(Queue(gpu, "c", {.events = 0}), "at least one event");
    EXPECT_DEATH(Queue(gpu, "c", {.staging_bytes = 0}), "a multiple of 64 bytes");
}

// The pool is small: events that were overwritten mean later points.
TEST(Queue, WaitsForOverwrittenEvents) {
    in_all_orders([](DeviceContext& gpu) {
        Queue first(gpu, "first", {.events = 2}), second(gpu, "second", {.events = 3});
        Buffer<float> b(&gpu.memory(), 10, "values");
        first.copy_in(read(ramp(10)), view(b), {"in"});
        const Event written = first.record();
        for (int i = 0; i < 5; ++i) (void)first.record();
        second.wait_for(written);
        std::vector<float> back(10);
        launch(second, kernels::Scale{2}, view(b));
        second.copy_out(ViewIn<const float, cuda::GpuMemory>(view(b)), std::span(back), {"out"});
        const Event copied = second.record();
        for (int i = 0; i < 5; ++i) (void)second.record();
        EXPECT_TRUE(second.wait(copied).complete());
        EXPECT_EQ(back[9], 18.0f);
    });
}

/// Copies of drawn sizes, in and out, through little staging memory.
TEST(Queue, ReusesStagingMemoryOnceItsCopyIsDone) {
    for (const StreamProgress progress : all_progress)
        EXPECT_TRUE(rc::check("staged copies", [&] {
            cuda_testing::reset(
                {.seed = *rc::gen::arbitrary<std::uint64_t>(), .progress = progress});
            DeviceContext gpu(0);
            const int events = *rc::gen::inRange(1, 9);
            Queue queue(gpu, "compute", {.events = events, .staging_bytes = 256, .graph_bytes = 0});
            constexpr std::size_t count = 300;
            Buffer<float> b(&gpu.memory(), count, "values");
            std::vector<float> expected(count), back(count);
            const int copies = *rc::gen::inRange(1, 12);
            std::vector<Event> done;
            for (int c = 0; c < copies; ++c) {
                const auto begin = *rc::gen::inRange<std::size_t>(0, count);
                const auto size = *rc::gen::inRange<std::size_t>(0, count - begin + 1);
                if (*rc::gen::arbitrary<bool>()) {
                    const auto values = ramp(size, float(1000 * c));
                    std::copy(values.begin(), values.end(), expected.begin() + long(begin));
                    queue.copy_in(read(values), view(b).subspan(begin, size), {"in"});
                } else {
                    std::vector<float> part(size);
                    const ViewIn<const float, cuda::GpuMemory> from = view(b).subspan(begin, size);
                    queue.copy_out(from, std::span(part), {"out"});
                    RC_ASSERT(queue.wait(queue.record()).complete());
                    RC_ASSERT(std::equal(part.begin(), part.end(), expected.begin() + long(begin)));
                }
            }
            queue.copy_out(ViewIn<const float, cuda::GpuMemory>(view(b)), std::span(back), {"out"});
            RC_ASSERT(queue.wait(queue.record()).complete());
            RC_ASSERT(back == expected);
        }));
}

/// Staging memory of four lines of 64 bytes, and copies in of so many, which the host does not wait
/// for unless it is said.
TEST(Queue, WaitsForStagingMemoryOnlyWhereACopyDoesNotFit) {
    in_all_orders([](DeviceContext& gpu) {
        Buffer<float> b(&gpu.memory(), 80, "values");
        const std::vector<float> here = ramp(80);
        const auto mark = cuda_testing::counters();
        std::int64_t waits = 0;
        const auto waited = [&] {
            const std::int64_t before =
                std::exchange(waits, (cuda_testing::counters() - mark).host_synchronizations);
            return waits - before;
        };
        const auto copy = [&](Queue& q, std::size_t lines) {
            q.copy_in(read(here).first(16 * lines), view(b).subspan(0, 16 * lines), {"in"});
            return q.record();
        };
        {
            Queue queue(gpu, "whole", {.staging_bytes = 256});
            (void)waited();  // for its scratch memory, which begins at zero
            const std::int64_t copies = cuda_testing::counters().copies;
            (void)copy(queue, 4);
            EXPECT_EQ(cuda_testing::counters().copies - copies, 1) << "in one part";
            EXPECT_EQ(waited(), 0);
            (void)copy(queue, 1);
            EXPECT_EQ(waited(), 1);
        }
        Queue queue(gpu, "lines", {.staging_bytes = 256});
        (void)waited();
        const Event first = copy(queue, 2);
        (void)copy(queue, 2);  // to the end
        EXPECT_EQ(waited(), 0);
        EXPECT_TRUE(queue.wait(first).complete());
        EXPECT_EQ(waited(), 1);
        (void)copy(queue, 1);
        (void)copy(queue, 1);  // as much as the second left in front of it
        EXPECT_EQ(waited(), 0);
        (void)copy(queue, 1);
        EXPECT_EQ(waited(), 1) << "for the second";
        EXPECT_TRUE(queue.wait(queue.record()).complete());

        Queue other(gpu, "others", {.staging_bytes = 256});
        const Event front = copy(other, 2);
        (void)copy(other, 1);
        EXPECT_TRUE(other.wait(front).complete());
        (void)waited();
        (void)copy(other, 2);  // one line is left at the end, and two in front
        EXPECT_EQ(waited(), 0);
    });
}

TEST(Queue, EndsBehindItsWork) {
    in_all_orders([](DeviceContext& gpu) {
        Buffer<float> b(&gpu.memory(), 100, "values");
        std::vector<float> back(100, -1.0f);
        {
            Queue queue(gpu, "compute");
            launch(queue, kernels::Scale{2}, view(b));
            queue.copy_out(ViewIn<const float, cuda::GpuMemory>(view(b)), std::span(back), {"out"});
        }
        EXPECT_EQ(back[0], -1.0f);  // nobody waited for the copy
    });
}

TEST(Buffers, BeginAtZero) {
    in_all_orders([](DeviceContext& gpu) {
        Queue queue(gpu, "compute");
        Buffer<float> b(&gpu.memory(), 100, "values");
        std::vector<float> back(100, -1.0f);
        queue.copy_out(ViewIn<const float, cuda::GpuMemory>(view(b)), std::span(back), {"out"});
        EXPECT_TRUE(queue.wait(queue.record()).complete());
        EXPECT_EQ(back, std::vector<float>(100));
    });
}

TEST(Queue, RefusesReadsOfCopiesThatWereNotWaitedFor) {
    cuda_testing::reset({});
    DeviceContext gpu(0);
    Queue queue(gpu, "compute");
    Buffer<float> b(&gpu.memory(), 4, "values");
    std::vector<float> back(4), other(4);
    queue.copy_out(ViewIn<const float, cuda::GpuMemory>(view(b)), std::span(back), {"out"});
    queue.host_reads(read(other), {"another"});
    EXPECT_DEATH(queue.host_reads(std::span<const float>(back).last(1), {"early"}),
                 "target of a copy that it did not wait for");
    EXPECT_TRUE(queue.wait(queue.record()).complete());
    queue.host_reads(read(back), {"in time"});
}

// ---- Errors that end a GPU ---------------------------------------------------------------------

TEST(Errors, ThatAGpuDoesNotSurviveAreItsLoss) {
    cuda_testing::reset({});
    for (const auto error : {
             cudaErrorIllegalAddress,
             cudaErrorIllegalInstruction,
             cudaErrorMisalignedAddress,
             cudaErrorInvalidAddressSpace,
             cudaErrorInvalidPc,
             cudaErrorHardwareStackError,
             cudaErrorLaunchFailure,
             cudaErrorLaunchTimeout,
             cudaErrorAssert,
             cudaErrorECCUncorrectable,
             cudaErrorNvlinkUncorrectable,
             cudaErrorDevicesUnavailable,
#if CUDART_VERSION >= 12000
             cudaErrorMpsClientTerminated,
             cudaErrorExternalDevice,
#endif
#if CUDART_VERSION >= 13000
             cudaErrorContained,
             cudaErrorTensorMemoryLeak,
#endif
         })
        EXPECT_THROW(cuda::expect(error, "a call", 2), DeviceLost) << error;
    EXPECT_TRUE(
        holds(error_of([] { cuda::expect(cudaErrorNoKernelImageForDevice, "a launch", 0); }),
              "GPU 0", "a launch", "CMAKE_CUDA_ARCHITECTURES"));
}

// ---- Costs -------------------------------------------------------------------------------------

TEST(Queue, StepsAllocateNothingAndWaitOnce) {
    in_all_orders([](DeviceContext& gpu) {
        Queue compute(gpu, "compute"), communication(gpu, "communication");
        Buffer<float> b(&gpu.memory(), 1000, "values");
        std::vector<float> back(1000);
        const auto step = [&] {
            compute.copy_in(read(ramp(1000)), view(b), {"batch"});
            launch(compute, kernels::Scale{2}, view(b));
            communication.wait_for(compute.record());
            launch(communication, kernels::Scale{0.5f}, view(b));
            compute.wait_for(communication.record());
            compute.copy_out(ViewIn<const float, cuda::GpuMemory>(view(b)), std::span(back),
                             {"out"});
            EXPECT_TRUE(compute.wait(compute.record()).complete());
        };
        step();
        const auto mark = cuda_testing::counters();
        for (int i = 0; i < 10; ++i) step();
        const auto used = cuda_testing::counters() - mark;
        EXPECT_EQ(used.allocations, 0);
        EXPECT_EQ(used.host_allocations, 0);
        EXPECT_EQ(used.host_synchronizations, 10);
        EXPECT_EQ(used.queries, 0);
        EXPECT_EQ(used.copies, 20);
        EXPECT_EQ(used.event_records, 50);  // three of the step, and one behind each copy
        EXPECT_EQ(used.event_waits, 20);
    });
}

// ---- Errors ------------------------------------------------------------------------------------

TEST(Errors, NameWhatIsMissing) {
    cuda_testing::reset({.devices = 0});
    EXPECT_TRUE(holds(error_of([] { (void)cuda::device_count(); }), "CUDA: ", "cudaErrorNoDevice",
                      "CUDA_VISIBLE_DEVICES"));
    cuda_testing::reset({.driver_version = 11000});
    EXPECT_TRUE(holds(error_of([] { DeviceContext gpu(0); }), "GPU 0",
                      "cudaErrorInsufficientDriver",
                      CUDART_VERSION >= 13000 ? "an NVIDIA driver 580 or newer; the one that is "
                                                "loaded runs CUDA 11.0 at most"
                                              : "the one that is loaded runs CUDA 11.0 at most"));
    cuda_testing::reset({.driver_version = 0});
    EXPECT_TRUE(holds(error_of([] { (void)cuda::device_count(); }), "needs an NVIDIA driver",
                      "none is loaded"));
    cuda_testing::reset({.devices = 2});
    EXPECT_EQ(cuda::device_count(), 2);
    EXPECT_TRUE(holds(error_of([] { DeviceContext gpu(2); }), "GPU 2", "cudaErrorInvalidDevice"));
}

/// What keeps CUDA from starting lies outside of the program.
TEST(Errors, SayWhatKeepsCudaFromStarting) {
    const auto of = [](cudaError_t error) {
        return error_of([&] { cuda::expect(error, "cudaGetDeviceCount", -1); });
    };
    EXPECT_TRUE(holds(of(cudaErrorStubLibrary), "CUDA: cudaGetDeviceCount: cudaErrorStubLibrary",
                      "take the toolkit's folder 'stubs' out of LD_LIBRARY_PATH"));
    EXPECT_TRUE(holds(of(cudaErrorSystemDriverMismatch), "restart the machine",
                      "let a container use the driver of its host"));
    EXPECT_TRUE(holds(of(cudaErrorCompatNotSupportedOnDevice), "'compat'", "LD_LIBRARY_PATH",
                      "which needs an NVIDIA driver"));
    EXPECT_TRUE(holds(of(cudaErrorSystemNotReady), "nvidia-fabricmanager"));
    EXPECT_TRUE(
        holds(of(cudaErrorInitializationError), "see whether nvidia-smi lists the GPUs", "forked"));
    EXPECT_TRUE(holds(of(cudaErrorUnsupportedPtxVersion), "install a newer driver",
                      "CMAKE_CUDA_ARCHITECTURES=native"));
    EXPECT_TRUE(holds(of(cudaErrorInvalidValue), "compute-sanitizer"));
}

TEST(Errors, SayHowMuchMemoryWasAskedForAndIsFree) {
    cuda_testing::reset({.devices = 1, .device_bytes = 1 << 20});
    DeviceContext gpu(0);
    const std::string error =
        error_of([&] { const Buffer<float> b(&gpu.memory(), 1 << 20, "parameters"); });
    EXPECT_TRUE(holds(error, "GPU 0: cudaMalloc of 4194304 bytes for 'parameters'",
                      "of 1048576 bytes 1048576 are free", "cudaErrorMemoryAllocation",
                      "smaller batch"))
        << error;
    const Buffer<float> fits(&gpu.memory(), 1 << 10, "parameters");
}

TEST(Errors, NameTheCurrentGpu) {
    cuda_testing::reset({.devices = 2, .check_at_exit = false});
    DeviceContext gpu(1);
    cuda_testing::fail_allocation(1);
    EXPECT_TRUE(holds(error_of([] { (void)cuda::make_pinned(100); }),
                      "GPU 1: cudaMallocHost of 100 bytes", "cudaErrorMemoryAllocation"));
    cuda_testing::lose_device(1);
    EXPECT_TRUE(holds(error_of([] { (void)cuda::make_stream(); }),
                      "GPU 1: cudaStreamCreateWithFlags", "cudaErrorDevicesUnavailable"));
    EXPECT_TRUE(holds(error_of([] { (void)cuda::make_event(); }), "GPU 1: cudaEventCreateWithFlags",
                      "cudaErrorDevicesUnavailable"));
}

TEST(Errors, OfClearingLeaveNoMemory) {
    cuda_testing::reset({.devices = 2});
    {
        DeviceContext gpu(1);
        cuda_testing::fail_operation(1, cudaErrorECCUncorrectable);
        EXPECT_TRUE(
            holds(error_of([&] { const Buffer<float> b(&gpu.memory(), 1000, "parameters"); }),
                  "GPU 1: clearing 'parameters'", "cudaErrorECCUncorrectable"));
    }
    cuda_testing::expect_clean();
}

TEST(Errors, OfEarlierWorkNameTheQueue) {
    for (const StreamProgress progress : all_progress) {
        cuda_testing::reset({.progress = progress, .check_at_exit = false});
        DeviceContext gpu(0);
        Queue queue(gpu, "compute");
        Buffer<float> b(&gpu.memory(), 4, "values");
        std::vector<float> back(4, 5.0f);
        cuda_testing::fail_operation(1, cudaErrorECCUncorrectable);
        const auto work = [&] {
            launch(queue, kernels::Scale{2}, view(b));
            queue.copy_out(ViewIn<const float, cuda::GpuMemory>(view(b)), std::span(back), {"out"});
            (void)queue.wait(queue.record());
        };
        EXPECT_THROW(
            {
                try {
                    work();
                } catch (const DeviceLost& e) {
                    EXPECT_TRUE(holds(e.what(), "GPU 0", "queue 'compute'",
                                      "cudaErrorECCUncorrectable", "last checkpoint"))
                        << e.what();
                    throw;
                }
            },
            DeviceLost);
        EXPECT_EQ(back[0], 5.0f);
    }
    cuda_testing::reset({});
}

// ---- A rank is missing -------------------------------------------------------------------------

TEST(Watch, EndsAWaitThatNothingElseEnds) {
    cuda_testing::reset({.progress = StreamProgress::late, .check_at_exit = false});
    bool arrives = false, ran = false;
    int calls = 0;
    DeviceContext gpu(0);  // asks its watch as it ends, too
    Queue queue(gpu, "communication");
    cuda_testing::enqueue_when(
        queue.stream(), "receive", [&] { return arrives; }, [&] { ran = true; });
    gpu.watch([&]() -> Delivery {
        if (++calls < 3) return {};
        arrives = true;  // as after an abort
        return {Delivery::Outcome::timed_out, 2};
    });
    const Event received = queue.record();
    const Delivery d = queue.wait(received);
    EXPECT_EQ(d.outcome, Delivery::Outcome::timed_out);
    EXPECT_EQ(d.peer, 2);
    EXPECT_EQ(calls, 3);
    EXPECT_TRUE(ran);  // what is left of the queue
    const Event reached = queue.record();
    cuda::expect(cudaStreamSynchronize(queue.stream()), "cudaStreamSynchronize");
    EXPECT_FALSE(queue.wait(reached).complete());
}
/// What was copied in front of the event arrives; what was to come behind it does not.
TEST(Watch, HandsOverWhatWasCopiedBeforeItGaveUp) {
    cuda_testing::reset({.check_at_exit = false});
    DeviceContext gpu(0);
    Queue queue(gpu, "compute");
    Buffer<float> b(&gpu.memory(), 4, "values");
    std::vector<float> before(4, -1.0f), behind(4, -1.0f);
    queue.copy_in(read(ramp(4)), view(b), {"in"});
    queue.copy_out(read_view(b), std::span(before), {"out"});
    const Event copied = queue.record();
    queue.copy_out(read_view(b), std::span(behind), {"out"});
    gpu.watch([] { return Delivery{Delivery::Outcome::timed_out, 1}; });
    EXPECT_FALSE(queue.wait(copied).complete());
    EXPECT_EQ(before, ramp(4));
    gpu.watch({});
    EXPECT_TRUE(queue.wait(queue.record()).complete());
    EXPECT_EQ(behind, std::vector<float>(4, -1.0f));
}
TEST(Watch, EndsWithWhatIsAbandoned) {
    cuda_testing::reset({.check_at_exit = false});
    DeviceContext gpu(0);
    Queue queue(gpu, "compute");
    Buffer<float> b(&gpu.memory(), 4, "values");
    std::vector<float> back(4, -1.0f);
    queue.copy_in(read(ramp(4)), view(b), {"in"});
    queue.copy_out(read_view(b), std::span(back), {"out"});
    gpu.watch([] { return Delivery{Delivery::Outcome::timed_out, 1}; });
    queue.abandon();
    EXPECT_EQ(back, ramp(4));
    EXPECT_TRUE(queue.wait(queue.record()).complete()) << "nothing watches any more";
}
/// The host asks CUDA once whether an event was reached.
TEST(Queue, RemembersWhatWasReached) {
    cuda_testing::reset({});
    DeviceContext gpu(0);
    Queue queue(gpu, "compute");
    const Event e = queue.record();
    EXPECT_TRUE(queue.wait(e).complete());
    const auto mark = cuda_testing::counters();
    EXPECT_TRUE(queue.wait(e).complete());
    EXPECT_TRUE(queue.reached(e));
    const auto used = cuda_testing::counters() - mark;
    EXPECT_EQ(used.host_synchronizations + used.queries, 0);
}

}  // namespace
