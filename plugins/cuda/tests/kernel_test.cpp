#include <gx/cuda/kernel.hpp>

#include "device_memory.hpp"
#include "planted_faults.hpp"

#include <initializer_list>  // parts
#include <limits>            // of an int64_t
#include <set>               // orders
#include <string>            // sentences
#include <utility>           // pairs

#include <gtest/gtest.h>

#include <gx/cuda/kernels.hpp>          // scale
#include <gx/cuda_testing/runtime.hpp>  // reset

namespace {

using namespace gx;
using namespace gx::cuda_tests;
using cuda::DeviceSpan;
using cuda::LaunchShape;

// A thread's fiber is slow to make under ThreadSanitizer.
const std::uint64_t seeds = cuda::emulation::under_thread_sanitizer() ? 3 : 8;

/// The error of a run, or "" where there is none. The run's memory is its own: an error stops the
/// runtime's double, which then starts anew.
std::string error_of(auto run) {
    try {
        run();
    } catch (const Error& e) {
        const std::string sentence = e.what();
        cuda_testing::reset();
        return sentence;
    }
    return {};
}

// ---- Builtins ----------------------------------------------------------------------------------

GX_KERNEL shuffles_kernel(DeviceSpan<int> out) {
    const int mine = static_cast<int>(threadIdx.x);
    out[mine] = __shfl_sync(all_lanes, mine, 5);
    out[32 + mine] = __shfl_down_sync(all_lanes, mine, 3);
    out[64 + mine] = __shfl_up_sync(all_lanes, mine, 3);
    out[96 + mine] = __shfl_xor_sync(all_lanes, mine, 6);
    out[128 + mine] = static_cast<int>(__ballot_sync(all_lanes, mine % 3 == 0));
    out[160 + mine] = __any_sync(all_lanes, mine == 9);
    out[192 + mine] = __all_sync(all_lanes, mine < 31);
}
TEST(Kernel, ExchangesInAWarp) {
    const TestStream stream;
    DeviceVector<int> out(stream, 7 * 32);
    cuda::launch("shuffles", LaunchShape{1, 32, stream}, shuffles_kernel, out);
    const auto got = out.host();
    int votes = 0;
    for (int i = 0; i < 32; ++i) votes |= static_cast<int>(std::uint32_t{i % 3 == 0} << i);
    for (int i = 0; i < 32; ++i) {
        const auto at = [&](int row) { return got[static_cast<std::size_t>(32 * row + i)]; };
        EXPECT_EQ(at(0), 5);
        EXPECT_EQ(at(1), i + 3 < 32 ? i + 3 : i);
        EXPECT_EQ(at(2), i >= 3 ? i - 3 : i);
        EXPECT_EQ(at(3), i ^ 6);
        EXPECT_EQ(at(4), votes);
        EXPECT_EQ(at(5), 1);
        EXPECT_EQ(at(6), 0);
    }
}

GX_KERNEL places_kernel(DeviceSpan<std::int64_t> out) {
    out[cuda::global_thread()] = cuda::all_threads() * 1000 + cuda::global_thread();
}
TEST(Kernel, NumbersItsThreads) {
    const TestStream stream;
    DeviceVector<std::int64_t> out(stream, 3 * 40);
    cuda::launch("places", LaunchShape{3, 40, stream}, places_kernel, out);
    const auto got = out.host();
    for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_EQ(got[i], 120'000 + static_cast<std::int64_t>(i));
}

template <class T>
GX_KERNEL add_kernel(DeviceSpan<T> sum) {
    atomicAdd(&sum[0], T(threadIdx.x));
}
template <class T>
class AtomicAdd : public ::testing::Test {};
using AddedTypes = ::testing::Types<int, unsigned, unsigned long long, float, double>;
TYPED_TEST_SUITE(AtomicAdd, AddedTypes);
TYPED_TEST(AtomicAdd, AddsEveryThread) {
    const TestStream stream;
    DeviceVector<TypeParam> sum(stream, 1);
    cuda::launch("add", LaunchShape{4, 64, stream}, add_kernel<TypeParam>, sum);
    EXPECT_EQ(sum.host()[0], TypeParam(4 * 63 * 64 / 2));
}

GX_KERNEL misaligned_kernel(DeviceSpan<char> bytes) {
    atomicAdd(reinterpret_cast<unsigned*>(&bytes[1]), 1u);
}
TEST(AtomicAdd, WantsAnAlignedAddress) {
    const std::string error = error_of([] {
        const TestStream stream;
        const DeviceVector<char> bytes(stream, 16);
        cuda::launch("misaligned", LaunchShape{1, 1, stream}, misaligned_kernel, bytes);
        must(cudaStreamSynchronize(stream));
    });
    EXPECT_NE(error.find("not aligned"), std::string::npos) << error;
}

GX_KERNEL smallest_kernel(DeviceSpan<const int> x, DeviceSpan<int> smallest) {
    atomicMin(&smallest[0], x[cuda::global_thread()]);
}
TEST(AtomicMin, KeepsTheSmallest) {
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
        cuda::emulation::seed(seed);
        std::vector<int> x(4 * 64, 9);
        x[seed * 50 % x.size()] = -3;
        const TestStream stream;
        const DeviceVector<int> values(stream, x);
        DeviceVector<int> smallest(stream, std::vector<int>{5});
        cuda::launch("smallest", LaunchShape{4, 64, stream}, smallest_kernel, values, smallest);
        EXPECT_EQ(smallest.host()[0], -3);
    }
}
GX_KERNEL misaligned_min_kernel(DeviceSpan<char> bytes) {
    atomicMin(reinterpret_cast<int*>(&bytes[1]), 1);
}
TEST(AtomicMin, WantsAnAlignedAddress) {
    const std::string error = error_of([] {
        const TestStream stream;
        const DeviceVector<char> bytes(stream, 16);
        cuda::launch("misaligned", LaunchShape{1, 1, stream}, misaligned_min_kernel, bytes);
        must(cudaStreamSynchronize(stream));
    });
    EXPECT_NE(error.find("atomicMin"), std::string::npos) << error;
}

GX_KERNEL double_kernel(DeviceSpan<const float> x, DeviceSpan<double> y) {
    y[cuda::global_thread()] = 2 * x[cuda::global_thread()];
}
TEST(Traffic, IsCountedUntilItIsTaken) {
    const TestStream stream;
    const DeviceVector<float> x(stream, 128);
    const DeviceVector<double> y(stream, 128);
    (void)cuda::emulation::take_traffic();
    cuda::launch("double", LaunchShape{2, 64, stream}, double_kernel, x, y);
    must(cudaStreamSynchronize(stream));
    const cuda::emulation::Traffic traffic = cuda::emulation::take_traffic();
    EXPECT_EQ(traffic.read, 128 * 4);
    EXPECT_EQ(traffic.written, 128 * 8);
    EXPECT_EQ(cuda::emulation::take_traffic().read, 0);
}

// ---- Orders ------------------------------------------------------------------------------------

GX_KERNEL tickets_kernel(DeviceSpan<unsigned> next, DeviceSpan<unsigned> turns) {
    turns[cuda::global_thread()] = atomicAdd(&next[0], 1u);
}
std::vector<unsigned> turns_of(std::uint64_t seed) {
    cuda::emulation::seed(seed);
    const TestStream stream;
    const DeviceVector<unsigned> next(stream, 1);
    DeviceVector<unsigned> turns(stream, 4 * 64);
    cuda::launch("tickets", LaunchShape{4, 64, stream}, tickets_kernel, next, turns);
    return turns.host();
}
TEST(Emulation, OrdersFollowFromTheSeed) {
    std::set<std::vector<unsigned>> orders;
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
        const auto turns = turns_of(seed);
        EXPECT_EQ(turns, turns_of(seed));
        orders.insert(turns);
    }
    EXPECT_EQ(orders.size(), seeds);
}

// ---- Shared memory -----------------------------------------------------------------------------

template <class T>
GX_DEVICE T sum_of_block(T v) {
    GX_SHARED(T, sums, 8);
    for (unsigned by = 16; by > 0; by /= 2) v += __shfl_down_sync(all_lanes, v, by);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;
    GX_SYNC_BLOCK();
    T sum{};
    for (unsigned i = 0; i < 8; ++i) sum += sums[i];
    return sum;
}
GX_KERNEL two_types_kernel(DeviceSpan<double> y) {
    const float a = sum_of_block(1.0f);
    const double b = sum_of_block(1.0 / 3);  // no barrier between: these are two variables
    y[threadIdx.x] = b + a;
}
TEST(Shared, AFunctionHasOneVariableOfEachType) {
    const TestStream stream;
    DeviceVector<double> y(stream, 256);
    cuda::launch("two types", LaunchShape{1, 256, stream}, two_types_kernel, y);
    for (const double sum : y.host()) EXPECT_NEAR(sum, 256 + 256.0 / 3, 1e-9);
}

#define GX_TWO_SHARED(a, b)  \
    GX_SHARED(float, a, 32); \
    GX_SHARED(float, b, 32)
GX_KERNEL one_line_kernel(DeviceSpan<float> y) {
    GX_TWO_SHARED(a, b);
    a[threadIdx.x] = 1;
    b[threadIdx.x] = 2;
    y[threadIdx.x] = a[threadIdx.x] * 10 + b[threadIdx.x];
}
#undef GX_TWO_SHARED
TEST(Shared, DeclarationsInOneLineAreTwoVariables) {
    const TestStream stream;
    DeviceVector<float> y(stream, 32);
    cuda::launch("one line", LaunchShape{1, 32, stream}, one_line_kernel, y);
    for (const float v : y.host()) EXPECT_EQ(v, 12);
}

/// A GPU's compiler refuses a length that is no constant.
GX_KERNEL growing_kernel(DeviceSpan<float> y) {
    for (unsigned count = 1; count <= 2; ++count) {
        GX_SHARED(float, s, count);
        s[0] = 1;
        y[0] = s[0];
    }
}
TEST(Shared, OneVariableHasOneSize) {
    const std::string error = error_of([] {
        const TestStream stream;
        const DeviceVector<float> y(stream, 1);
        cuda::launch("growing", LaunchShape{1, 1, stream}, growing_kernel, y);
        must(cudaStreamSynchronize(stream));
    });
    EXPECT_NE(error.find("of 4 bytes before, is declared with 8"), std::string::npos) << error;
}

// ---- Launches ----------------------------------------------------------------------------------

GX_KERNEL first_kernel(DeviceSpan<float> y) {
    if (cuda::global_thread() == 0) y[0] = 1;
}
/// The error of a launch of one block, before anything waits for it.
std::string launch_error(cudaStream_t stream, LaunchShape shape, DeviceSpan<float> y) {
    shape.stream = stream;
    try {
        cuda::launch("first", shape, first_kernel, y);
    } catch (const Error& e) {
        return e.what();
    }
    return {};
}
std::string refused(cudaError_t error) {
    return std::string("GPU 0: launch of kernel 'first': ") + cudaGetErrorName(error);
}
TEST(Launch, ThrowsWhatCudaReturns) {
    const TestStream stream;
    DeviceVector<float> y(stream, 1);
    cuda_testing::fail_launch(1);
    EXPECT_TRUE(launch_error(stream, {}, y).starts_with(refused(cudaErrorLaunchOutOfResources)));
    EXPECT_EQ(launch_error(stream, {}, y), "");
    EXPECT_EQ(y.host()[0], 1);
}
TEST(Launch, ReportsItsSpansToTheRaceDetector) {
    const std::string error = error_of([] {
        const TestStream stream, other;
        const DeviceVector<float> y(stream, 1);
        for (const cudaStream_t s : {cudaStream_t(stream), cudaStream_t(other)})
            cuda::launch("first", LaunchShape{1, 1, s}, first_kernel, y);
        must(cudaDeviceSynchronize());
    });
    EXPECT_EQ(error.find("race: 'first'"), 0u) << error;
}
GX_KERNEL all_lanes_kernel(DeviceSpan<float> y) {
    __syncwarp(all_lanes);
    y[threadIdx.x] = 1;
}
TEST(Launch, OfAPartOfAWarpLacksItsOtherLanes) {
    const std::string error = error_of([] {
        const TestStream stream;
        const DeviceVector<float> y(stream, 20);
        cuda::launch("all lanes", LaunchShape{1, 20, stream}, all_lanes_kernel, y);
        must(cudaStreamSynchronize(stream));
    });
    EXPECT_NE(error.find("waits for lane 20, which its warp lacks"), std::string::npos) << error;
}
TEST(Launch, ThrowsAnEarlierErrorOfTheDevice) {
    {
        const TestStream stream;
        const DeviceVector<float> y(stream, 1);
        cuda_testing::fail_operation(1);
        EXPECT_EQ(launch_error(stream, {}, y), "");
        EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
        EXPECT_TRUE(launch_error(stream, {}, y).starts_with(refused(cudaErrorIllegalAddress)));
    }
    cuda_testing::reset();
}
TEST(Launch, ThrowsForAShapeThatNoGpuHas) {
    const TestStream stream;
    DeviceVector<float> y(stream, 1);
    for (const LaunchShape& shape : {LaunchShape{1, 0}, LaunchShape{1, 1025}, LaunchShape{1, 2048},
                                     LaunchShape{1u << 31, 1}}) {
        EXPECT_TRUE(
            launch_error(stream, shape, y).starts_with(refused(cudaErrorInvalidConfiguration)))
            << shape.blocks << " " << shape.threads;
        EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "it was thrown";
        EXPECT_EQ(cuda::emulation::launch("first", shape.blocks, shape.threads, stream,
                                          first_kernel, DeviceSpan<float>(y)),
                  cudaErrorInvalidConfiguration);
        EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration) << "as from a GPU's launch";
    }
    EXPECT_EQ(y.host()[0], 0);
    EXPECT_EQ(launch_error(stream, {1, 1024}, y), "");
    EXPECT_EQ(launch_error(stream, {0, 2048}, y), "") << "an empty grid is none";
    EXPECT_EQ(y.host()[0], 1);
}

// ---- Spans -------------------------------------------------------------------------------------

GX_KERNEL doubles_kernel(DeviceSpan<const double> x, DeviceSpan<double> y) { y[0] = x[0]; }
TEST(Spans, WantTheAlignmentOfTheirElements) {
    const auto error_at = [](int read_offset, int write_offset) {
        return error_of([&] {
            const TestStream stream;
            const DeviceVector<double> x(stream, 4);
            char* const bytes = reinterpret_cast<char*>(DeviceSpan<double>(x).data);
            const auto at = [&](int offset) {
                return DeviceSpan<double>{reinterpret_cast<double*>(bytes + offset), 1};
            };
            cuda::launch("doubles", LaunchShape{1, 1, stream}, doubles_kernel, at(read_offset),
                         at(write_offset));
            must(cudaStreamSynchronize(stream));
        });
    };
    const std::string error =
        "kernel 'doubles': the memory of a span is not aligned to the 8 bytes of its elements";
    EXPECT_EQ(error_at(8, 16), "");
    EXPECT_EQ(error_at(4, 16), error);
    EXPECT_EQ(error_at(8, 17), error);
}
GX_KERNEL ints_of_bytes_kernel(DeviceSpan<char> bytes) {
    const DeviceSpan<int> ints{reinterpret_cast<int*>(&bytes[2]), 3};
    ints[1] = 1;
}
TEST(Spans, ThatAKernelMakesWantItToo) {
    const std::string error = error_of([] {
        const TestStream stream;
        const DeviceVector<char> bytes(stream, 32);
        cuda::launch("ints of bytes", LaunchShape{1, 1, stream}, ints_of_bytes_kernel, bytes);
        must(cudaStreamSynchronize(stream));
    });
    EXPECT_NE(error.find("element 1 of a span that is not aligned to 4 bytes"), std::string::npos)
        << error;
}

GX_KERNEL part_kernel(DeviceSpan<float> y) { y.subspan(threadIdx.x * 4, 5)[0] = 1; }
TEST(Spans, APartOutsideIsNamedInKernels) {
    const std::string error = error_of([] {
        const TestStream stream;
        const DeviceVector<float> y(stream, 32);
        cuda::launch("part", LaunchShape{1, 8, stream}, part_kernel, y);
        must(cudaStreamSynchronize(stream));
    });
    EXPECT_NE(error.find("kernel 'part', block 0, thread 7, kernel_test.cpp:"), std::string::npos)
        << error;
    EXPECT_NE(error.find("5 elements from element 28 of a span of 32 elements"), std::string::npos)
        << error;
}
TEST(Spans, APartOutsideIsNamedOnTheHost) {
    constexpr std::int64_t max = std::numeric_limits<std::int64_t>::max();
    float x[4]{};
    const DeviceSpan<float> all{x, 4};
    for (const auto& [first, count] : std::initializer_list<std::pair<std::int64_t, std::int64_t>>{
             {-1, 1}, {0, -1}, {0, 5}, {5, 0}, {4, 1}, {max, max}, {max, 1}, {1, max}}) {
        const std::string error = error_of([&] { (void)all.subspan(first, count); });
        EXPECT_NE(error.find("of a span of 4 elements"), std::string::npos)
            << first << " " << count << ": " << error;
    }
    EXPECT_EQ(all.subspan(4, 0).size, 0);
    EXPECT_EQ(all.subspan(1, 3).data, x + 1);
}
TEST(Spans, NoneHasANegativeSize) {
    for (const std::int64_t size :
         {std::int64_t{-1}, std::int64_t{-1000}, std::numeric_limits<std::int64_t>::min()}) {
        const DeviceSpan<float> none{nullptr, size};
        EXPECT_DEATH(cuda::scale(nullptr, none, 2), "is not negative");
        EXPECT_DEATH(cuda::launch("first", LaunchShape{}, first_kernel, none), "is not negative");
    }
}

// ---- Planted faults ----------------------------------------------------------------------------

constexpr std::size_t elements = 1024;
std::vector<float> input() {
    std::vector<float> x(elements);
    for (std::size_t i = 0; i < elements; ++i) x[i] = static_cast<float>(i % 89);
    return x;
}
std::vector<float> output_of(const char* name, Kernel kernel, std::uint64_t seed) {
    cuda::emulation::seed(seed);
    const TestStream stream;
    const DeviceVector<float> x(stream, input());
    DeviceVector<float> y(stream, elements);
    cuda::launch(name, LaunchShape{elements / fault_threads, fault_threads, stream}, kernel, x, y);
    return y.host();
}

class Faults : public ::testing::TestWithParam<PlantedFault> {};
TEST_P(Faults, TheRightKernelGivesTheSameInEveryOrder) {
    const PlantedFault& f = GetParam();
    const auto expected = output_of(f.name, f.right, 0);
    for (std::uint64_t seed = 1; seed < seeds; ++seed)
        EXPECT_EQ(output_of(f.name, f.right, seed), expected) << seed;
}
TEST_P(Faults, TheWrongKernelIsFound) {
    const PlantedFault& f = GetParam();
    if (f.races && cuda::emulation::under_thread_sanitizer())
        GTEST_SKIP() << "its report ends the run";
    std::size_t found = 0;
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
        std::vector<float> y;
        const std::string error = error_of([&] { y = output_of(f.name, f.wrong, seed); });
        if (*f.sentence == '\0') {
            EXPECT_EQ(error, "");
            found += y != output_of(f.name, f.right, 0);
            continue;
        }
        EXPECT_NE(error.find(f.sentence), std::string::npos) << seed << ": " << error;
        for (const char* part : {"kernel '", f.name, "', block ", ", thread ", "faults.hpp:"})
            EXPECT_NE(error.find(part), std::string::npos) << seed << ": " << error;
    }
    EXPECT_EQ(found > 0, *f.sentence == '\0' && f.numbers);
}
INSTANTIATE_TEST_SUITE_P(Planted, Faults, ::testing::ValuesIn(planted_faults),
                         [](const auto& of) { return std::string(of.param.name); });

GX_KERNEL line_kernel(DeviceSpan<float> y) {
    if (blockIdx.x == 2 && threadIdx.x == 17) y[4] = 1;
}
constexpr int line_of_the_fault = __LINE__ - 2;
TEST(Emulation, NamesKernelBlockThreadAndLine) {
    EXPECT_EQ(
        error_of([] {
            const TestStream stream;
            const DeviceVector<float> y(stream, 4);
            cuda::launch("line", LaunchShape{3, 32, stream}, line_kernel, y);
            must(cudaStreamSynchronize(stream));
        }),
        "kernel 'line', block 2, thread 17, kernel_test.cpp:" + std::to_string(line_of_the_fault) +
            ": element 4 of a span to write of 4 elements");
}

}  // namespace
