// UpdateTables: what they hold, and that nothing is released while queued work uses it.
#include <gx/cuda/update_tables.hpp>

#include <vector>

#include <gtest/gtest.h>

#include <gx/cuda/queue.hpp>
#include <gx/cuda_testing/runtime.hpp>

namespace {

using namespace gx;
using cuda_testing::expect_clean;
using cuda_testing::StreamProgress;

constexpr StreamProgress every_progress[] = {StreamProgress::late, StreamProgress::eager,
                                             StreamProgress::random};

std::vector<unsigned long long> back(cuda::Queue& queue, cuda::UpdateTables& tables,
                                     std::int64_t count) {
    std::vector<unsigned long long> there(static_cast<std::size_t>(count * cuda::norm_words));
    const auto sums = tables.sums().subspan(0, count * cuda::norm_words);
    Buffer<unsigned long long> copy(&queue.context().memory(), sums.size, "copy");
    EXPECT_EQ(
        cudaMemcpyAsync(cuda::GpuMemory::open(copy.view<cuda::GpuMemory>()).data, sums.data,
                        there.size() * sizeof there[0], cudaMemcpyDeviceToDevice, queue.stream()),
        cudaSuccess);
    queue.copy_out(ViewIn<const unsigned long long, cuda::GpuMemory>(copy.view<cuda::GpuMemory>()),
                   std::span(there), {"out"});
    EXPECT_TRUE(queue.wait(queue.record()).complete());
    return there;
}

TEST(UpdateTables, SumsThatGrowWaitForTheWorkOnThoseBefore) {
    for (const StreamProgress progress : every_progress) {
        cuda_testing::reset({.seed = 1, .progress = progress, .devices = 1});
        {
            cuda::DeviceContext gpu(0);
            cuda::Queue queue(gpu, "compute");
            cuda::UpdateTables tables;
            tables.prepare_sums(queue, 1);
            fill(queue.stream(), tables.sum(), 7ull);  // queued
            tables.prepare_sums(queue, 3);
            fill(queue.stream(), tables.sums(), 5ull);
            for (const auto x : back(queue, tables, 3)) EXPECT_EQ(x, 5u);
        }
        expect_clean();
    }
}
TEST(UpdateTables, SumsThatAreEnoughStay) {
    cuda_testing::reset({.seed = 1, .progress = StreamProgress::late, .devices = 1});
    {
        cuda::DeviceContext gpu(0);
        cuda::Queue queue(gpu, "compute");
        cuda::UpdateTables tables;
        tables.prepare_sums(queue, 3);
        fill(queue.stream(), tables.sums(), 5ull);
        for (const std::int64_t count : {1, 3}) tables.prepare_sums(queue, count);
        for (const auto x : back(queue, tables, 3)) EXPECT_EQ(x, 5u);
    }
    expect_clean();
}
/// Pieces that queued work reads are not replaced before it is done.
TEST(UpdateTables, SlicesThatChangeWaitForTheWorkOnThoseBefore) {
    for (const StreamProgress progress : every_progress) {
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
        expect_clean();
    }
}
TEST(UpdateTablesDeathTest, ASliceNamesAParameter) {
    const auto prepare = [](int parameter) {
        cuda_testing::reset({.seed = 1, .devices = 1});
        cuda::DeviceContext gpu(0);
        cuda::Queue queue(gpu, "compute");
        cuda::UpdateTables tables;
        const ParameterSlice slices[]{{.offset = 0, .count = 8, .parameter = parameter}};
        const float decays[]{0, 0};
        tables.prepare(queue, slices, decays);
        EXPECT_TRUE(queue.wait(queue.record()).complete());
    };
    prepare(1);
    EXPECT_DEATH(prepare(2), "a slice names a parameter of the reserved graph");
    EXPECT_DEATH(prepare(-1), "a slice names a parameter of the reserved graph");
}

}  // namespace
