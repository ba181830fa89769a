// What is believed of cuDNN's backend API without a GPU: descriptors, finalization, graphs, and
// which graphs get plans on GPUs that are described by their properties. One program for the double
// and for libcudnn: where they differ, the double is wrong.
// Run:  contract.real   on libcudnn; exits with 77 (skipped) behind what holds for every version,
//                       where the version is none whose plans are known
//       contract        on the double
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "backend.hpp"
#include "devices.hpp"

#ifdef GX_CUDNN_DOUBLED
#include <gx/cuda_testing/cudnn.hpp>
#include <gx/cuda_testing/runtime.hpp>
#endif

namespace {

using namespace backend;

class Backend : public ::testing::Test {
protected:
    void SetUp() override {
#ifdef GX_CUDNN_DOUBLED
        gx::cuda_testing::reset();
        gx::cuda_testing::reset_cudnn();
#endif
    }
};

/// What a child that runs f returns; -signal where it is killed.
int in_child(const std::function<int()>& f) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(f());
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/// What libcudnn takes although the manual forbids it, or no program can mean it.
void taken_but_a_misuse(const std::function<cudnnStatus_t()>& f) {
#ifdef GX_CUDNN_DOUBLED
    EXPECT_THROW((void)f(), gx::cuda_testing::Misuse);
#else
    EXPECT_EQ(f(), CUDNN_STATUS_SUCCESS);
#endif
}
/// What libcudnn does not survive.
void a_crash_or_a_misuse(const std::function<cudnnStatus_t()>& f) {
#ifdef GX_CUDNN_DOUBLED
    EXPECT_THROW((void)f(), gx::cuda_testing::Misuse);
#else
    EXPECT_LT(in_child([&] {
                  (void)f();
                  return 0;
              }),
              0);
#endif
}

Descriptor some_tensor() { return tensor({.dims = {2, 3, 4, 5}}); }

// ---- Creating, destroying ---------------------------------------------------------------------

TEST_F(Backend, RefusesNullAndUnknownDescriptors) {
    cudnnBackendDescriptor_t d = nullptr;
    EXPECT_EQ(cudnnBackendCreateDescriptor(static_cast<cudnnBackendDescriptorType_t>(63), &d),
              CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
    EXPECT_EQ(cudnnBackendDestroyDescriptor(nullptr), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    EXPECT_EQ(cudnnBackendFinalize(nullptr), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    a_crash_or_a_misuse(
        [] { return cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, nullptr); });
}
TEST_F(Backend, TakesNoNullHandle) {
    EXPECT_EQ(cudnnCreate(nullptr), CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(cudnnSetStream(nullptr, nullptr), CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(cudnnDestroy(nullptr), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnBackendExecute(nullptr, nullptr, nullptr), CUDNN_STATUS_BAD_PARAM);
}
TEST_F(Backend, NamesItsStatuses) {
    EXPECT_STREQ(cudnnGetErrorString(CUDNN_STATUS_SUCCESS), "CUDNN_STATUS_SUCCESS");
    for (const auto& [status, name] : std::initializer_list<std::pair<cudnnStatus_t, const char*>>{
             {CUDNN_STATUS_BAD_PARAM, "CUDNN_STATUS_BAD_PARAM"},
             {CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED"},
             {CUDNN_STATUS_NOT_SUPPORTED, "CUDNN_STATUS_NOT_SUPPORTED"},
             {CUDNN_STATUS_EXECUTION_FAILED, "CUDNN_STATUS_EXECUTION_FAILED"}})
        EXPECT_STREQ(cudnnGetErrorString(status), name);
    EXPECT_GE(cudnnGetVersion(), 90800u) << "devices from JSON came with 9.8";
}
TEST_F(Backend, InitializeForgetsWhatWasSet) {
    const Descriptor t = some_tensor();
    EXPECT_EQ(cudnnBackendInitialize(t.handle()), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnBackendFinalize(t.handle()), CUDNN_STATUS_BAD_PARAM) << "no dimensions";
}

// ---- Setting and getting ----------------------------------------------------------------------

TEST_F(Backend, ChecksTypesAndCountsAsTheyAreSet) {
    const Descriptor t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const std::int64_t dims[9]{2, 3, 4, 5, 1, 1, 1, 1, 1};
    const cudnnDataType_t types[2]{fp32, fp32};
    const auto set = [&](Name name, cudnnBackendAttributeType_t type, std::int64_t count,
                         const void* from) {
        return cudnnBackendSetAttribute(t.handle(), name, type, count, from);
    };
    EXPECT_EQ(set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_FLOAT, 4, dims),
              CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    for (const std::int64_t count : {0, -1})
        EXPECT_EQ(set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, count, dims),
                  CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, nullptr),
              CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 2, types),
              CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 2, dims), CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, types),
              CUDNN_STATUS_BAD_PARAM)
        << "of another descriptor";
    taken_but_a_misuse(
        [&] { return set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 9, dims); });
}
TEST_F(Backend, ChangesNothingBehindFinalize) {
    const Descriptor t = some_tensor();
    const std::int64_t uid = 8;
    EXPECT_EQ(cudnnBackendFinalize(t.handle()), CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(cudnnBackendSetAttribute(t.handle(), CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1,
                                       &uid),
              CUDNN_STATUS_BAD_PARAM);
}
TEST_F(Backend, GetsWhatWasSetOnceFinalized) {
    const Descriptor t = some_tensor(), raw(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    std::int64_t dims[8]{}, count = -1;
    const auto get = [&](std::int64_t requested, void* to,
                         cudnnBackendAttributeType_t type = CUDNN_TYPE_INT64) {
        return cudnnBackendGetAttribute(t.handle(), CUDNN_ATTR_TENSOR_DIMENSIONS, type, requested,
                                        &count, to);
    };
    EXPECT_EQ(get(8, dims), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(count, 4);
    EXPECT_EQ(dims[3], 5);
    EXPECT_EQ(get(2, dims), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(count, 2);
    EXPECT_EQ(get(0, nullptr), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(count, 4) << "how many there are";
    EXPECT_EQ(get(8, dims, CUDNN_TYPE_FLOAT), CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    EXPECT_EQ(get(-1, dims), CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(cudnnBackendGetAttribute(t.handle(), CUDNN_ATTR_CONVOLUTION_COMP_TYPE,
                                       CUDNN_TYPE_INT64, 8, &count, dims),
              CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(cudnnBackendGetAttribute(raw.handle(), CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64,
                                       8, &count, dims),
              CUDNN_STATUS_NOT_INITIALIZED);
}
TEST_F(Backend, GetsScalarsByACountOfOne) {
    Graph g;
    const Descriptor t = some_tensor(), c = convolution({}), s = reduction(CUDNN_REDUCE_TENSOR_ADD),
                     w = resample({}), &p = g.mode(CUDNN_POINTWISE_ADD);
    std::int64_t to[8]{}, count = -1;
    const auto get = [&](const Descriptor& d, Name name, cudnnBackendAttributeType_t type,
                         std::int64_t requested = 1) {
        return cudnnBackendGetAttribute(d.handle(), name, type, requested, &count, to);
    };
    const auto uid = CUDNN_ATTR_TENSOR_UNIQUE_ID, spatial = CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS,
               sums = CUDNN_ATTR_REDUCTION_COMP_TYPE, mode = CUDNN_ATTR_RESAMPLE_MODE;
    for (const std::int64_t requested : {0, 1, 2}) {
        const auto expected = requested == 1 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
        EXPECT_EQ(get(t, uid, CUDNN_TYPE_INT64, requested), expected);
        EXPECT_EQ(get(c, spatial, CUDNN_TYPE_INT64, requested), expected);
        EXPECT_EQ(get(s, sums, CUDNN_TYPE_DATA_TYPE, requested), expected);
        EXPECT_EQ(get(w, mode, CUDNN_TYPE_RESAMPLE_MODE, requested), expected);
    }
    EXPECT_EQ(get(t, uid, CUDNN_TYPE_FLOAT), CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    EXPECT_EQ(get(c, spatial, CUDNN_TYPE_FLOAT), CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    EXPECT_EQ(get(s, sums, CUDNN_TYPE_FLOAT), CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(get(w, mode, CUDNN_TYPE_FLOAT), CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(get(p, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE),
              CUDNN_STATUS_NOT_SUPPORTED);
    EXPECT_EQ(get(t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64),
              CUDNN_STATUS_NOT_SUPPORTED);
    EXPECT_EQ(get(c, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE),
              CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    for (const auto type :
         {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_BACKEND_RESAMPLE_DESCRIPTOR}) {
        const Descriptor d(type);
        const Name name = type == CUDNN_BACKEND_REDUCTION_DESCRIPTOR ? sums : mode;
        EXPECT_EQ(cudnnBackendSetAttribute(d.handle(), name, CUDNN_TYPE_INT64, 1, to),
                  CUDNN_STATUS_BAD_PARAM);
    }
}
TEST_F(Backend, ChecksDescriptorsThatAreSet) {
    const Name x = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X;
    const Descriptor o(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR), t = some_tensor(),
                                                                                c = convolution({});
    cudnnBackendDescriptor_t const two[2]{t.handle(), t.handle()}, none = nullptr,
                                                                   conv = c.handle();
    const auto set = [&](std::int64_t count, const void* from) {
        return cudnnBackendSetAttribute(o.handle(), x, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, from);
    };
    EXPECT_EQ(set(2, two), CUDNN_STATUS_NOT_SUPPORTED);
    EXPECT_EQ(set(1, &none), CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(set(1, two), CUDNN_STATUS_SUCCESS);
#ifdef GX_CUDNN_DOUBLED
    EXPECT_THROW((void)set(1, &conv), gx::cuda_testing::Misuse) << "libcudnn: now and then a crash";
#else
    (void)conv;
#endif
    const std::int64_t one = 1;
    EXPECT_EQ(cudnnBackendSetAttribute(o.handle(), CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                       CUDNN_TYPE_INT64, 1, &one),
              CUDNN_STATUS_BAD_PARAM)
        << "a number is float or double";
}

// ---- Tensors ----------------------------------------------------------------------------------

TEST_F(Backend, ChecksTensors) {
    const auto status = [](TensorSpec s) { return tensor(s).status(); };
    EXPECT_EQ(Descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR).finalize().status(),
              CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(status({.dims = {2, 3, 4, 5}}), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(status({.dims = {2, 3, 4, 5}, .strides = {60, 20, 5}}), CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(status({.dims = {2, -3, 4, 5}, .strides = {60, 20, 5, 1}}), CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(status({.dims = {2, 3, 4, 5}, .strides = {-60, 20, 5, 1}}), CUDNN_STATUS_BAD_PARAM);
    for (const std::int64_t alignment : {0, -16, 1, 2, 3})
        EXPECT_EQ(status({.dims = {2, 3, 4, 5}, .alignment = alignment}), CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(status({.dims = {2, 3, 4, 5}, .type = fp16, .alignment = 2}), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(status({.dims = {2, 3, 4, 5}, .by_value = true}), CUDNN_STATUS_BAD_PARAM);
    for (const auto type :
         {fp32, fp16, bf16, CUDNN_DATA_DOUBLE, CUDNN_DATA_INT32, CUDNN_DATA_INT64})
        EXPECT_EQ(status({.dims = {1, 1, 1, 1}, .type = type, .by_value = true}),
                  CUDNN_STATUS_SUCCESS);
    taken_but_a_misuse([&] { return status({.dims = {2, 0, 4, 5}}); });
}
TEST_F(Backend, HasDefaultsWhereTheManualRequiresAnAttribute) {
    const auto without = [](Name left_out) {
        Descriptor t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
        t.integer(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 16)
            .integers(CUDNN_ATTR_TENSOR_DIMENSIONS, {2, 3, 4, 5})
            .integers(CUDNN_ATTR_TENSOR_STRIDES, {60, 20, 5, 1});
        if (left_out != CUDNN_ATTR_TENSOR_UNIQUE_ID) t.integer(CUDNN_ATTR_TENSOR_UNIQUE_ID, 1);
        if (left_out != CUDNN_ATTR_TENSOR_DATA_TYPE) t.data_type(CUDNN_ATTR_TENSOR_DATA_TYPE, fp32);
        return t.finalize().status();
    };
    for (const Name name : {CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_ATTR_TENSOR_DATA_TYPE})
        taken_but_a_misuse([&] { return without(name); });
    for (const auto type : {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_BACKEND_MATMUL_DESCRIPTOR,
                            CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_BACKEND_RESAMPLE_DESCRIPTOR})
        taken_but_a_misuse([&] { return Descriptor(type).finalize().status(); });
}

// ---- Operations -------------------------------------------------------------------------------

TEST_F(Backend, ChecksConvolutions) {
    EXPECT_EQ(convolution({}).status(), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(convolution({.stride = {0, 1}}).status(), CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(convolution({.dilation = {1, 0}}).status(), CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(convolution({.pad = {-1, 0}}).status(), CUDNN_STATUS_BAD_PARAM);
    const auto status = [](const Dims& x, const Dims& w, const Dims& y, ConvolutionSpec s = {}) {
        std::vector<cudnnStatus_t> all;
        for (const Conv kind : {Conv::forward, Conv::data, Conv::filter}) {
            Graph g;
            const Descriptor &xt = g.tensor(x, fp16), &wt = g.tensor(w, fp16),
                             &yt = g.tensor(y, fp16);
            g.conv(kind, xt, wt, yt, s);
            all.push_back(g.status());
        }
        EXPECT_EQ(all[0], all[1]);
        EXPECT_EQ(all[0], all[2]);
        return all[0];
    };
    EXPECT_EQ(status({2, 8, 6, 6}, {16, 8, 3, 3}, {2, 16, 4, 4}), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(status({2, 8, 6, 6}, {16, 4, 3, 3}, {2, 16, 4, 4}), CUDNN_STATUS_SUCCESS) << "groups";
    EXPECT_EQ(status({2, 8, 7, 6}, {16, 8, 3, 1}, {2, 16, 3, 3}, {.stride = {2, 2}}),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(status({2, 8, 6, 6}, {16, 8, 3, 3}, {2, 16, 2, 2}, {.dilation = {2, 2}}),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(status({2, 8, 6, 6}, {16, 8, 3, 3}, {2, 16, 5, 4}), CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(status({2, 8, 6, 6}, {16, 8, 3, 3}, {3, 16, 4, 4}), CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(status({2, 8, 6, 6}, {16, 8, 3, 3}, {2, 12, 4, 4}), CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(status({2, 8, 6, 6}, {16, 7, 3, 3}, {2, 16, 4, 4}), CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(status({2, 8, 6, 6}, {15, 4, 3, 3}, {2, 15, 4, 4}), CUDNN_STATUS_BAD_PARAM);
    Graph nothing;
    nothing.operation(Descriptor(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR));
    EXPECT_EQ(nothing.status(), CUDNN_STATUS_BAD_PARAM);
}
TEST_F(Backend, KeepsDescriptorsAsTheyWereWhenSet) {
    const Descriptor t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    Graph g;
    const Descriptor &x = g.tensor({2, 8, 6, 6}, fp16), &w = g.tensor({8, 8, 1, 1}, fp16);
    g.conv(Conv::forward, x, w, t);
    EXPECT_EQ(g.status(), CUDNN_STATUS_BAD_PARAM) << "y was not finalized when it was set";
}
TEST_F(Backend, ChecksPointwiseOperations) {
    const Dims all{2, 8, 6, 6}, channel{1, 8, 1, 1}, other{1, 3, 1, 1};
    const auto binary = [](const Dims& a, const Dims& b, const Dims& y) {
        Graph g;
        const Descriptor &at = g.tensor(a, fp16), &bt = g.tensor(b, fp16), &yt = g.tensor(y, fp16);
        g.pointwise(CUDNN_POINTWISE_ADD, at, &bt, yt);
        return g.status();
    };
    EXPECT_EQ(binary(all, all, all), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(binary(all, channel, all), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(binary(channel, all, all), CUDNN_STATUS_SUCCESS);
    taken_but_a_misuse([&] { return binary(all, other, all); });
    taken_but_a_misuse([&] { return binary(all, all, channel); });
    Graph missing, extra, backward;
    const Descriptor& a = missing.tensor(all, fp16);
    missing.pointwise(CUDNN_POINTWISE_ADD, a, nullptr, a);
    EXPECT_EQ(missing.status(), CUDNN_STATUS_BAD_PARAM) << "no second operand";
    taken_but_a_misuse([&] {
        const Descriptor &x = extra.tensor(all, fp16), &b = extra.tensor(all, fp16),
                         &y = extra.tensor(all, fp16);
        extra.pointwise(CUDNN_POINTWISE_RELU_FWD, x, &b, y);
        return extra.status();
    });
    const Descriptor &dy = backward.tensor(all, fp16), &x = backward.tensor(all, fp16),
                     &dx = backward.tensor(all, fp16);
    backward.pointwise_backward(CUDNN_POINTWISE_RELU_BWD, dy, x, dx);
    EXPECT_EQ(backward.status(), CUDNN_STATUS_SUCCESS);
}
TEST_F(Backend, ChecksProductsAndReductions) {
    const auto matmul = [](const Dims& a, const Dims& b, const Dims& c) {
        Graph g;
        const Descriptor &at = g.tensor(a, fp16), &bt = g.tensor(b, fp16), &ct = g.tensor(c, fp16);
        g.matmul(at, bt, ct);
        return g.status();
    };
    EXPECT_EQ(matmul({1, 4, 8}, {1, 8, 16}, {1, 4, 16}), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(matmul({1, 4, 8}, {1, 9, 16}, {1, 4, 16}), CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(matmul({1, 4, 8}, {1, 8, 16}, {1, 4, 17}), CUDNN_STATUS_BAD_PARAM);
    const auto reduce = [](const Dims& x, const Dims& y) {
        Graph g;
        const Descriptor &xt = g.tensor(x, fp16), &yt = g.tensor(y, fp32);
        g.reduce(xt, yt);
        return g.status();
    };
    EXPECT_EQ(reduce({2, 16, 6, 6}, {1, 16, 1, 1}), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(reduce({2, 16, 6, 6}, {2, 16, 6, 6}), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(reduce({2, 16, 6, 6}, {1, 3, 1, 1}), CUDNN_STATUS_BAD_PARAM);
    taken_but_a_misuse([&] { return reduce({2, 16, 6, 6}, {1, 8, 1, 1}); });
}
TEST_F(Backend, TakesWindowsAsFractionsOrIntegers) {
    for (const bool by_integers : {false, true}) {
        const Descriptor d = resample({.window = {3, 5}, .by_integers = by_integers});
        EXPECT_EQ(d.status(), CUDNN_STATUS_SUCCESS);
        cudnnFraction_t window[2]{};
        std::int64_t count = -1;
        EXPECT_EQ(cudnnBackendGetAttribute(d.handle(), CUDNN_ATTR_RESAMPLE_WINDOW_DIMS,
                                           CUDNN_TYPE_FRACTION, 2, &count, window),
                  CUDNN_STATUS_SUCCESS);
        EXPECT_EQ(count, 2);
        EXPECT_EQ(window[1].numerator, 5);
        EXPECT_EQ(window[1].denominator, 1);
    }
}
TEST_F(Backend, ChecksPooling) {
    const WindowSpec window{.window = {3, 3}, .pad = {1, 1}};
    const auto pool = [&](const Dims& x, const Dims& y, cudnnDataType_t index_type) {
        Graph g;
        const Descriptor &xt = g.tensor(x, fp16), &yt = g.tensor(y, fp16),
                         &it = g.tensor(y, index_type);
        g.pool(window, xt, yt, &it);
        if (g.status() == CUDNN_STATUS_SUCCESS) g.pool_backward(window, yt, xt, &it);
        return g.status();
    };
    EXPECT_EQ(pool({2, 16, 6, 6}, {2, 16, 3, 3}, int8), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(pool({2, 16, 6, 6}, {2, 16, 4, 3}, int8), CUDNN_STATUS_BAD_PARAM);
    taken_but_a_misuse([&] { return pool({2, 16, 6, 6}, {2, 16, 3, 3}, fp16); });
    Graph g;
    const Descriptor &dy = g.tensor({2, 16, 3, 3}, fp16), &dx = g.tensor({2, 16, 6, 6}, fp16);
    g.pool_backward(window, dy, dx);
    EXPECT_EQ(g.status(), CUDNN_STATUS_BAD_PARAM) << "neither indices nor x and y";
}

// ---- Graphs -----------------------------------------------------------------------------------

TEST_F(Backend, ChecksGraphs) {
    const Dims all{2, 16, 6, 6};
    EXPECT_EQ(Descriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR).finalize().status(),
              CUDNN_STATUS_BAD_PARAM);
    const auto relu = [](Graph& g, const Descriptor& x, const Descriptor& y) {
        g.pointwise(CUDNN_POINTWISE_RELU_FWD, x, nullptr, y);
    };
    const auto status = [](const Graph& g) {
        EXPECT_EQ(g.status(), CUDNN_STATUS_SUCCESS);
        return g.operation_graph().finalize().status();
    };
    {
        Graph g;
        const Descriptor &x = g.tensor(all, fp16), &v = g.tensor(all, fp32, true),
                         &y = g.tensor(all, fp16);
        relu(g, v, y);
        relu(g, x, v);
        EXPECT_EQ(status(g), CUDNN_STATUS_SUCCESS) << "operations come in any order";
    }
    {
        Graph g;
        const Descriptor &x = g.tensor(all, fp16), &y = g.tensor(all, fp16);
        relu(g, x, y);
        relu(g, x, y);
        EXPECT_EQ(status(g), CUDNN_STATUS_BAD_PARAM) << "a result of two operations";
    }
    {
        Graph g;
        const Descriptor &a = g.tensor(all, fp32, true), &b = g.tensor(all, fp32, true);
        relu(g, a, b);
        relu(g, b, a);
        EXPECT_EQ(status(g), CUDNN_STATUS_BAD_PARAM) << "a cycle";
    }
    for (const bool writes : {false, true}) {
        Graph g;
        const Descriptor &v = g.tensor(all, fp32, true), &m = g.tensor(all, fp16);
        writes ? relu(g, m, v) : relu(g, v, m);
        taken_but_a_misuse([&] { return status(g); });
    }
    {
        Graph g;
        const Descriptor &x = g.tensor(all, fp16),
                         &y = g.keep(tensor({.uid = 1, .dims = {2, 8, 6, 6}}));
        const Descriptor& w = g.tensor({8, 16, 1, 1}, fp16);
        g.conv(Conv::forward, x, w, y);
        taken_but_a_misuse([&] { return status(g); });
    }
}
TEST_F(Backend, GraphsTakeFinalizedOperations) {
    const Descriptor g(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR),
        o(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR), t = some_tensor();
    const auto set = [&](const Descriptor& d) {
        cudnnBackendDescriptor_t const handle = d.handle();
        return cudnnBackendSetAttribute(g.handle(), CUDNN_ATTR_OPERATIONGRAPH_OPS,
                                        CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &handle);
    };
    EXPECT_EQ(set(o), CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
#ifdef GX_CUDNN_DOUBLED
    EXPECT_THROW((void)set(t), gx::cuda_testing::Misuse) << "libcudnn: now and then a crash";
#else
    (void)t;
#endif
}

// ---- Engines and plans ------------------------------------------------------------------------

/// Finalized: a convolution of 3x3 in fp16.
Descriptor small_convolution(Graph& g) {
    const Descriptor &x = g.tensor({2, 16, 6, 6}, fp16), &w = g.tensor({16, 16, 3, 3}, fp16),
                     &y = g.tensor({2, 16, 4, 4}, fp16);
    g.conv(Conv::forward, x, w, y);
    Descriptor graph = g.operation_graph();
    graph.finalize();
    return graph;
}

TEST_F(Backend, PlansFromGraphToPlan) {
    Graph g;
    const Descriptor graph = small_convolution(g);
    const Descriptor device = device_properties(h100_json);
    EXPECT_EQ(device.status(), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(Descriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR).finalize().status(),
              CUDNN_STATUS_BAD_PARAM)
        << "no graph";
    EXPECT_EQ(Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR).finalize().status(),
              CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED)
        << "no configuration";
    Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    EXPECT_EQ(cudnnBackendFinalize(engine.handle()), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    engine.part(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph)
        .integer(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 9999);
    EXPECT_EQ(cudnnBackendFinalize(engine.handle()), CUDNN_STATUS_NOT_SUPPORTED);
    a_crash_or_a_misuse(
        [] { return Descriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).finalize().status(); });

    cudnnStatus_t status{};
    for (const auto mode : {CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK}) {
        EXPECT_FALSE(configurations(graph, mode, &device, status).empty());
        EXPECT_EQ(status, CUDNN_STATUS_SUCCESS);
    }
    const auto found = configurations(graph, CUDNN_HEUR_MODE_A, &device, status);
    ASSERT_EQ(status, CUDNN_STATUS_SUCCESS);
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(cudnnBackendFinalize(found[0].handle()), CUDNN_STATUS_BAD_PARAM) << "it is final";
    Descriptor p(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    std::int64_t bytes = 0, count = 0;
    EXPECT_EQ(cudnnBackendGetAttribute(p.handle(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                       CUDNN_TYPE_INT64, 1, &count, &bytes),
              CUDNN_STATUS_NOT_INITIALIZED);
    EXPECT_EQ(cudnnBackendSetAttribute(p.handle(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                       CUDNN_TYPE_INT64, 1, &bytes),
              CUDNN_STATUS_NOT_SUPPORTED);
    const Descriptor made = plan(found[0], &device);
    EXPECT_EQ(made.status(), CUDNN_STATUS_SUCCESS);
    EXPECT_GE(workspace_bytes(made), 0);
}

constexpr Name json_of_plan = CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;

/// Gets the JSON of a plan, with room for `room` characters; -1: for all.
cudnnStatus_t get_json(const Descriptor& p, std::string& json, std::int64_t room = -1) {
    std::int64_t count = 0;
    const cudnnStatus_t status =
        cudnnBackendGetAttribute(p.handle(), json_of_plan, CUDNN_TYPE_CHAR, 0, &count, nullptr);
    if (status != CUDNN_STATUS_SUCCESS) return status;
    json.resize(static_cast<std::size_t>(room < 0 ? count : room));
    return cudnnBackendGetAttribute(p.handle(), json_of_plan, CUDNN_TYPE_CHAR, std::ssize(json),
                                    &count, json.data());
}
Descriptor plan_from(const std::string& json, const Descriptor* device) {
    Descriptor p(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    p.part(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device)
        .set(json_of_plan, CUDNN_TYPE_CHAR, std::ssize(json), json.data())
        .finalize();
    return p;
}
/// `digit` in front of the number of a member.
std::string with_digit(std::string json, const std::string& member, char digit) {
    const auto at = json.find("\"" + member + "\":");
    EXPECT_NE(at, std::string::npos) << member;
    if (at != std::string::npos) json.insert(at + member.size() + 3, 1, digit);
    return json;
}

TEST_F(Backend, SerializesPlans) {
    Graph g;
    const Descriptor graph = small_convolution(g);
    const Descriptor device = device_properties(h100_json);
    cudnnStatus_t status{};
    const auto found = configurations(graph, CUDNN_HEUR_MODE_A, &device, status);
    ASSERT_FALSE(found.empty());
    const Descriptor made = plan(found[0], &device);
    std::string json, again;
    EXPECT_EQ(get_json(Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR), json),
              CUDNN_STATUS_NOT_INITIALIZED);
    EXPECT_EQ(get_json(made, json, 10), CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
    ASSERT_EQ(get_json(made, json), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(json.front(), '{');
    EXPECT_EQ(json.back(), '}');

    const Descriptor loaded = plan_from(json, &device);
    ASSERT_EQ(loaded.status(), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(workspace_bytes(loaded), workspace_bytes(made));
    EXPECT_EQ(get_json(loaded, again), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(again, json);
    EXPECT_EQ(cudnnBackendSetAttribute(loaded.handle(), json_of_plan, CUDNN_TYPE_CHAR,
                                       std::ssize(json), json.data()),
              CUDNN_STATUS_BAD_PARAM);
    Descriptor configuration(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    std::int64_t count = 0;
    EXPECT_EQ(
        cudnnBackendGetAttribute(loaded.handle(), CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, configuration.address()),
        CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(notes_of(configuration), notes_of(found[0]));
}
TEST_F(Backend, RefusesPlansThatItDidNotSerialize) {
    Graph g;
    const Descriptor graph = small_convolution(g);
    const Descriptor device = device_properties(h100_json), other = device_properties(v100_json);
    cudnnStatus_t status{};
    const auto found = configurations(graph, CUDNN_HEUR_MODE_A, &device, status);
    ASSERT_FALSE(found.empty());
    std::string json;
    ASSERT_EQ(get_json(plan(found[0], &device), json), CUDNN_STATUS_SUCCESS);
    const auto status_of = [&](const std::string& text) {
        return plan_from(text, &device).status();
    };
    for (const std::size_t size : {std::size_t{1}, json.size() / 2, json.size() - 1})
        EXPECT_EQ(status_of(json.substr(0, size)), CUDNN_STATUS_BAD_PARAM) << size;
    for (const char* const text : {"{}", "text", "[]"})
        EXPECT_EQ(status_of(text), CUDNN_STATUS_BAD_PARAM) << text;
    EXPECT_EQ(status_of(json + "x"), CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(status_of(with_digit(json, "cudnnVersion", '1')),
              CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH);
    EXPECT_EQ(status_of(with_digit(json, "schemaVersion", '1')),
              CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH);
    EXPECT_EQ(status_of(with_digit(json, "engineId", '9')), CUDNN_STATUS_NOT_SUPPORTED);
    for (const char* const name : {"deviceVer", "driverVer", "multiProcessorCount"})
        EXPECT_EQ(status_of(with_digit(json, name, '1')), CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH)
            << name;
    EXPECT_EQ(plan_from(json, &other).status(), CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH);
    a_crash_or_a_misuse([&] { return plan_from(json, nullptr).status(); });
}
TEST_F(Backend, ChecksVariantPacks) {
    float memory[2];
    void* const pointers[2]{&memory[0], &memory[1]};
    const auto status = [&](const Dims& uids) {
        Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
        pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 2, pointers);
        if (!uids.empty()) pack.integers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, uids);
        return pack.finalize().status();
    };
    EXPECT_EQ(status({1, 2}), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(status({1}), CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(status({}), CUDNN_STATUS_BAD_PARAM);
    taken_but_a_misuse([&] { return status({1, 1}); });
}

// ---- Which graphs have plans ------------------------------------------------------------------

/// The best that a graph gets on a GPU.
enum class Plans : unsigned char {
    none,
    inexact,  ///< only by tensor cores: TF32 for products in fp32
    exact     ///< deterministic, without tensor cores in fp32 products
};

struct Pattern {
    std::string name;
    std::function<void(Graph&)> make;
    Plans v100, h100;
};

struct Layer {
    const char* name;
    std::int64_t n, c, size, k, window, stride, pad, groups;
};
constexpr Layer layers[] = {{"3x3", 64, 64, 56, 64, 3, 1, 1, 1},
                            {"1x1/2", 8, 64, 56, 128, 1, 2, 0, 1},
                            {"7x7/2 of 3", 64, 3, 224, 64, 7, 2, 3, 1},
                            {"3x3 of 3", 4, 3, 32, 16, 3, 1, 1, 1},
                            {"3x3 in 32 groups", 8, 128, 28, 128, 3, 1, 1, 32},
                            {"3x3/2, odd", 3, 5, 9, 7, 3, 2, 1, 1},
                            {"dense 64 to 10", 8, 64, 1, 10, 1, 1, 0, 1}};

void convolution_patterns(std::vector<Pattern>& all, cudnnDataType_t t, const std::string& type) {
    using enum Plans;
    for (const Layer& l : layers) {
        const std::int64_t out = (l.size + 2 * l.pad - l.window) / l.stride + 1;
        const Dims x{l.n, l.c, l.size, l.size}, w{l.k, l.c / l.groups, l.window, l.window},
            y{l.n, l.k, out, out};
        const ConvolutionSpec spec{.pad = {l.pad, l.pad}, .stride = {l.stride, l.stride}};
        for (const auto& [kind, name] :
             {std::pair(Conv::forward, "conv"), {Conv::data, "dgrad"}, {Conv::filter, "wgrad"}})
            all.push_back({type + name + l.name,
                           [=](Graph& g) {
                               const Descriptor &a = g.tensor(x, t), &b = g.tensor(w, t),
                                                &c = g.tensor(y, t);
                               g.conv(kind, a, b, c, spec);
                           },
                           exact, exact});
        all.push_back({type + "conv + bias " + l.name,
                       [=](Graph& g) {
                           const Descriptor &a = g.tensor(x, t), &b = g.tensor(w, t),
                                            &c = g.tensor(y, fp32, true),
                                            &bias = g.tensor({1, l.k, 1, 1}, t),
                                            &d = g.tensor(y, t);
                           g.conv(Conv::forward, a, b, c, spec);
                           g.pointwise(CUDNN_POINTWISE_ADD, c, &bias, d);
                       },
                       exact, exact});
        if (t == fp32) continue;
        const bool fits = l.groups == 1 && l.c % 4 == 0;
        const bool fits_v100 = fits && l.k % 4 == 0;
        all.push_back({type + "wgrad to fp32 by identity " + l.name,
                       [=](Graph& g) {
                           const Descriptor &a = g.tensor(x, t), &b = g.tensor(w, fp32, true),
                                            &c = g.tensor(y, t), &d = g.tensor(w, fp32);
                           g.conv(Conv::filter, a, b, c, spec);
                           g.pointwise(CUDNN_POINTWISE_IDENTITY, b, nullptr, d);
                       },
                       fits_v100 ? exact : none, fits ? exact : none});
    }
    all.push_back({type + "wgrad to fp32",
                   [=](Graph& g) {
                       const Descriptor &a = g.tensor({8, 64, 28, 28}, t),
                                        &b = g.tensor({64, 64, 1, 1}, fp32),
                                        &c = g.tensor({8, 64, 28, 28}, t);
                       g.conv(Conv::filter, a, b, c);
                   },
                   t == fp32 ? exact : none, t == fp32 ? exact : none});
}

void other_patterns(std::vector<Pattern>& all, cudnnDataType_t t, const std::string& type) {
    using enum Plans;
    const Dims x{8, 64, 28, 28}, half{8, 64, 14, 14}, pixel{8, 64, 1, 1}, channels{1, 64, 1, 1};
    const auto add = [&](const std::string& name, std::function<void(Graph&)> make, Plans v100,
                         Plans h100) { all.push_back({type + name, std::move(make), v100, h100}); };
    add(
        "add + relu",
        [=](Graph& g) {
            const Descriptor &a = g.tensor(x, t), &b = g.tensor(x, t), &s = g.tensor(x, fp32, true),
                             &y = g.tensor(x, t);
            g.pointwise(CUDNN_POINTWISE_ADD, a, &b, s);
            g.pointwise(CUDNN_POINTWISE_RELU_FWD, s, nullptr, y);
        },
        exact, exact);
    add(
        "relu backward",
        [=](Graph& g) {
            const Descriptor &dy = g.tensor(x, t), &a = g.tensor(x, t), &dx = g.tensor(x, t);
            g.pointwise_backward(CUDNN_POINTWISE_RELU_BWD, dy, a, dx);
        },
        exact, exact);
    const WindowSpec max{.window = {3, 3}, .pad = {1, 1}};
    WindowSpec mean = max, all_mean{.window = {28, 28}, .stride = {1, 1}};
    mean.mode = all_mean.mode = CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING;
    for (const bool backward : {false, true}) {
        const std::string pass = backward ? " backward" : "";
        const auto pool = [=](const WindowSpec& s, const Dims& to, bool index) {
            return [=](Graph& g) {
                const Descriptor &a = g.tensor(x, t), &y = g.tensor(to, t);
                const Descriptor* const i = index ? &g.tensor(to, int8) : nullptr;
                backward ? g.pool_backward(s, y, a, i) : g.pool(s, a, y, i);
            };
        };
        add("max pool" + pass, pool(max, half, true), exact, exact);
        add("average pool" + pass, pool(mean, half, false), exact, exact);
        add("global average" + pass, pool(all_mean, pixel, false), exact, exact);
    }
    add(
        "sum over n, h, w",
        [=](Graph& g) {
            const Descriptor &a = g.tensor(x, t), &y = g.tensor(channels, fp32);
            g.reduce(a, y);
        },
        exact, exact);
    add(
        "sum over n",
        [=](Graph& g) {
            const Descriptor &a = g.tensor({8, 10, 1, 1}, t), &y = g.tensor({1, 10, 1, 1}, fp32);
            g.reduce(a, y);
        },
        exact, exact);
    add(
        "sum over rows",
        [=](Graph& g) {
            const Descriptor &a = g.tensor({1, 8, 10}, t), &y = g.tensor({1, 1, 10}, fp32);
            g.reduce(a, y);
        },
        none, none);
    for (const std::int64_t out : {1000, 10})
        add(
            "matmul to " + std::to_string(out),
            [=](Graph& g) {
                const Descriptor &a = g.tensor({1, 64, 2048}, t),
                                 &b = g.tensor({.dims = {1, 2048, out},
                                                .type = t,
                                                .strides = {2048 * out, 1, 2048}}),
                                 &c = g.tensor({1, 64, out}, t);
                g.matmul(a, b, c);
            },
            t == fp32 || out == 10 ? none : exact, t == fp32 ? inexact : exact);
    add(
        "conv + statistics",
        [=](Graph& g) {
            const Descriptor &a = g.tensor(x, t), &w = g.tensor({64, 64, 3, 3}, t),
                             &y = g.tensor(x, t), &s = g.tensor(channels, fp32),
                             &q = g.tensor(channels, fp32);
            g.conv(Conv::forward, a, w, y, {.pad = {1, 1}});
            g.statistics(y, s, q);
        },
        none, t == fp32 ? inexact : exact);
    add(
        "statistics",
        [=](Graph& g) {
            const Descriptor &y = g.tensor(x, t), &s = g.tensor(channels, fp32),
                             &q = g.tensor(channels, fp32);
            g.statistics(y, s, q);
        },
        none, none);
}

/// Gradients of a convolution of relu(scale * x + bias), or whose dy is one.
void normalised_patterns(std::vector<Pattern>& all, cudnnDataType_t t, const std::string& type) {
    using enum Plans;
    const Dims x{8, 64, 28, 28}, w{64, 64, 1, 1}, channels{1, 64, 1, 1};
    const auto normalised = [=](Graph& g) -> const Descriptor& {
        const Descriptor &a = g.tensor(x, t), &scale = g.tensor(channels, t),
                         &bias = g.tensor(channels, t), &b = g.tensor(x, fp32, true),
                         &c = g.tensor(x, fp32, true), &d = g.tensor(x, t, true);
        g.pointwise(CUDNN_POINTWISE_MUL, a, &scale, b);
        g.pointwise(CUDNN_POINTWISE_ADD, b, &bias, c);
        g.pointwise(CUDNN_POINTWISE_RELU_FWD, c, nullptr, d);
        return d;
    };
    const auto add = [&](const char* name, Conv kind, bool of_x, Plans h100) {
        all.push_back({type + name,
                       [=](Graph& g) {
                           const Descriptor& first = normalised(g);
                           const Descriptor &other = g.tensor(x, t), &b = g.tensor(w, t);
                           g.conv(kind, of_x ? first : other, b, of_x ? other : first);
                       },
                       none, h100});
    };
    add("wgrad of normalised x", Conv::filter, true, exact);
    add("wgrad of normalised dy", Conv::filter, false, exact);
    add("dgrad of normalised dy", Conv::data, false, none);
}

/// The best plan that is finalized; products in fp32 are exact without tensor cores only.
Plans best_plan(const Pattern& pattern, const char* json, bool products_in_fp32) {
    Graph g;
    pattern.make(g);
    Descriptor graph = g.operation_graph();
    if (g.status() != CUDNN_STATUS_SUCCESS || graph.finalize().status() != CUDNN_STATUS_SUCCESS)
        return Plans::none;
    const Descriptor device = device_properties(json);
    Plans best = Plans::none;
    int tries = 0;
    for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
        cudnnStatus_t status{};
        for (const Descriptor& c : configurations(graph, mode, &device, status)) {
            const auto notes = notes_of(c);
            const auto has = [&](cudnnBackendNumericalNote_t n) {
                return std::ranges::find(notes, n) != notes.end();
            };
            if (has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) ||
                has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION))
                continue;
            const bool is_exact = !(products_in_fp32 && has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
            if (!is_exact && (best == Plans::inexact || ++tries > 3)) continue;
            if (plan(c, &device).status() != CUDNN_STATUS_SUCCESS) continue;
            if (is_exact) return Plans::exact;
            best = Plans::inexact;
        }
    }
    return best;
}

void check_plans(cudnnDataType_t t, const std::string& type) {
    std::vector<Pattern> products, others;
    convolution_patterns(products, t, type + " ");
    other_patterns(others, t, type + " ");
    if (t == fp16) normalised_patterns(products, t, type + " ");
#ifdef GX_CUDNN_DOUBLED
    const bool has_v100 = true, has_h100 = true;
#else
    const bool has_v100 = cudnnGetVersion() / 100 == 910, has_h100 = cudnnGetVersion() / 100 == 919;
    if (!has_v100 && !has_h100)
        GTEST_SKIP() << "plans of cuDNN " << cudnnGetVersion() << " are not known";
#endif
    (void)best_plan(products[0], h100_json, false);  // loads what each child would load anew
    for (const auto& list : {products, others})
        for (const Pattern& p : list)
            for (const bool is_v100 : {true, false}) {
                if (!(is_v100 ? has_v100 : has_h100)) continue;
                const bool is_product = list.size() == products.size() ||
                                        p.name.find("matmul") != std::string::npos ||
                                        p.name.find("conv") != std::string::npos;
                const int best = in_child([&] {
                    return static_cast<int>(
                        best_plan(p, is_v100 ? v100_json : h100_json, t == fp32 && is_product));
                });
                EXPECT_EQ(best, static_cast<int>(is_v100 ? p.v100 : p.h100))
                    << p.name << (is_v100 ? " on a V100" : " on an H100");
            }
}

TEST_F(Backend, PlansFp16) { check_plans(fp16, "fp16"); }
TEST_F(Backend, PlansFp32) { check_plans(fp32, "fp32"); }

}  // namespace
