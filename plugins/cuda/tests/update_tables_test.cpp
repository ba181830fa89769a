// UpdateTables: what they hold, and that nothing is replaced while queued work uses it.
#include <gx/cuda/update_tables.hpp>

#include <vector>

#include <gtest/gtest.h>

#include <gx/cuda/queue.hpp>
#include <gx/cuda_testing/runtime.hpp>

namespace {

using namespace gx;

/// Tables are made once, and again for other slices.
TEST(UpdateTables, AreMadeAgainForOtherSlicesAlone) {
    cuda_testing::reset({});
    cuda::DeviceContext gpu(0);
    cuda::Queue queue(gpu, "compute");
    std::vector<ParameterSlice> slices{{0, 10, 0}, {16, 5, 1}};
    const std::vector<float> decays{0.1f, 0};
    cuda::UpdateTables& tables = queue.update_tables();
    const auto allocations = [&](auto prepare) {
        const auto mark = cuda_testing::counters();
        prepare();
        return (cuda_testing::counters() - mark).allocations;
    };
    EXPECT_EQ(allocations([&] { tables.prepare(queue, slices, decays); }), 3);
    EXPECT_EQ(allocations([&] { tables.prepare(queue, slices, decays); }), 0);
    EXPECT_EQ(tables.pieces().size, 2);
    slices[1].count = 40'000;
    EXPECT_EQ(allocations([&] { tables.prepare(queue, slices, decays); }), 2);
    EXPECT_EQ(tables.pieces().size, 3);
    const std::vector<float> others{0.2f, 0};
    EXPECT_EQ(allocations([&] { tables.prepare(queue, slices, others); }), 2);
    const std::vector<char> adapts{1, 0};
    EXPECT_EQ(allocations([&] { tables.prepare_norms(queue, slices, adapts); }), 5);
    EXPECT_EQ(allocations([&] { tables.prepare_norms(queue, slices, adapts); }), 0);
    EXPECT_EQ(allocations([&] { tables.prepare(queue, slices, others); }), 2);
    slices[1].parameter = 2;
    EXPECT_DEATH(tables.prepare(queue, slices, others), "a parameter of the reserved graph");
    EXPECT_TRUE(queue.wait(queue.record()).complete());
}
/// Memory of sums grows once the kernels that use it have ended.
TEST(UpdateTables, WaitForWhatUsesTheSumsThatTheyReplace) {
    cuda_testing::reset({.progress = cuda_testing::StreamProgress::late});
    cuda::DeviceContext gpu(0);
    cuda::Queue queue(gpu, "compute");
    cuda::UpdateTables& tables = queue.update_tables();
    const auto waits = [&](std::int64_t sums) {
        const Event used = queue.record();
        tables.prepare_sums(queue, sums);
        const auto mark = cuda_testing::counters();
        return queue.reached(used) && (cuda_testing::counters() - mark).queries == 0;
    };
    EXPECT_FALSE(waits(2)) << "there are none yet";
    EXPECT_FALSE(waits(2)) << "they are large enough";
    cuda::fill(queue.stream(), tables.sums(), 1ull);
    EXPECT_TRUE(waits(3));
    EXPECT_TRUE(queue.wait(queue.record()).complete());
}
/// Pieces that queued work reads are not replaced before it is done.
TEST(UpdateTables, SlicesThatChangeWaitForTheWorkOnThoseBefore) {
    using cuda_testing::StreamProgress;
    for (const auto progress :
         {StreamProgress::late, StreamProgress::eager, StreamProgress::random}) {
        cuda_testing::reset({.seed = 1, .progress = progress, .devices = 1});
        {
            cuda::DeviceContext gpu(0);
            cuda::Queue queue(gpu, "compute");
            cuda::UpdateTables tables;
            const ParameterSlice first[]{{.offset = 0, .count = 8, .parameter = 0}};
            const ParameterSlice second[]{{.offset = 0, .count = 8, .parameter = 0},
                                          {.offset = 8, .count = 8, .parameter = 1}};
            const float decays[]{0.5f, 0.25f};
            tables.prepare(queue, first, decays);
            Buffer<float> copy(&gpu.memory(), 2, "copy");
            EXPECT_EQ(cudaMemcpyAsync(cuda::GpuMemory::open(copy.view<cuda::GpuMemory>()).data,
                                      tables.decays().data, 2 * sizeof(float),
                                      cudaMemcpyDeviceToDevice, queue.stream()),
                      cudaSuccess);
            const float others[]{1, 2};
            tables.prepare(queue, second, others);
            std::vector<float> seen(2);
            queue.copy_out(ViewIn<const float, cuda::GpuMemory>(copy.view<cuda::GpuMemory>()),
                           std::span(seen), {"out"});
            EXPECT_TRUE(queue.wait(queue.record()).complete());
            EXPECT_EQ(seen, (std::vector<float>{0.5f, 0.25f}));
        }
        cuda_testing::expect_clean();
    }
}

}  // namespace
