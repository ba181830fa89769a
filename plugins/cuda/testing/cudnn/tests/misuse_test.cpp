// Wrong programs on cuDNN's double: each ends in a named error. And its faults.
#include "execution.hpp"

#include <set>

namespace {

using namespace cudnn_test;
using gx::cuda_testing::CudnnGpu;

/// x + b = y of 4 elements each, and a 1x1 convolution that wants a workspace.
class CudnnMisuse : public ::testing::Test {
protected:
    void SetUp() override { start(); }
    static Graph addition() {
        Graph g;
        const Dims d{1, 4, 1, 1};
        const Descriptor &x = g.tensor(d, fp32), &b = g.tensor(d, fp32), &y = g.tensor(d, fp32);
        g.pointwise(CUDNN_POINTWISE_ADD, x, &b, y);
        return g;
    }
    static Graph convolution_of_one() {
        Graph g;
        const Dims d{1, 4, 1, 1};
        const Descriptor &x = g.tensor(d, fp32), &w = g.tensor({4, 4, 1, 1}, fp32),
                         &y = g.tensor(d, fp32);
        g.conv(Conv::forward, x, w, y);
        return g;
    }
    static void put_addition(Execution& e) {
        for (const std::int64_t uid : {1, 2, 3})
            e.put({.uid = uid, .dims = {1, 4, 1, 1}}, uid == 3 ? Values{} : Values{1, 2, 3, 4});
    }
    /// The misuse of an addition with these pointers.
    static std::string with(Execution& e, const Dims& uids, const std::vector<void*>& pointers) {
        return sentence_of([&] {
            const Descriptor p = e.plan_of(addition()), pack = e.pack_of(uids, pointers, nullptr);
            ok(cudnnBackendExecute(e.handle, p.handle(), pack.handle()));
            ok(cudaStreamSynchronize(e.stream));
        });
    }
};

TEST_F(CudnnMisuse, OfPointers) {
    Execution e;
    put_addition(e);
    void *const x = e.device(1), *const b = e.device(2), *const y = e.device(3);
    EXPECT_EQ(with(e, {1, 2, 3}, {x, b, y}), "");
    EXPECT_NE(with(e, {1, 2}, {x, b}).find("no pointer for the tensor of unique id 3"),
              std::string::npos);
    EXPECT_NE(with(e, {1, 2, 3, 9}, {x, b, y, y}).find("unique id 9"), std::string::npos);
    EXPECT_NE(with(e, {1, 2, 3}, {x, nullptr, y}).find("null pointer"), std::string::npos);
    EXPECT_NE(with(e, {1, 2, 3}, {x, b, static_cast<char*>(y) + 4}).find("not aligned to 16"),
              std::string::npos);
    EXPECT_NE(with(e, {1, 2, 3}, {x, b, x}).find("overlaps"), std::string::npos);
    alignas(16) static float host[4];
    EXPECT_NE(with(e, {1, 2, 3}, {x, host, y}), "") << "memory of the host";
}
std::string json_of(const Descriptor& p) {
    std::int64_t count = 0;
    const auto get = [&](std::string& to) {
        ok(cudnnBackendGetAttribute(p.handle(), CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                    CUDNN_TYPE_CHAR, std::ssize(to), &count,
                                    to.empty() ? nullptr : to.data()));
    };
    std::string json;
    get(json);
    json.resize(static_cast<std::size_t>(count));
    get(json);
    return json;
}
Descriptor plan_from(const std::string& json, cudnnHandle_t handle) {
    Descriptor p(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    p.set(static_cast<Name>(400), CUDNN_TYPE_HANDLE, 1, &handle)  // deprecated
        .set(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, std::ssize(json),
             json.data())
        .finalize();
    return p;
}
TEST_F(CudnnMisuse, SerializedPlansComputeTheSame) {
    Execution e;
    put_addition(e);
    const std::string json = json_of(e.plan_of(addition()));
    const Descriptor p = plan_from(json, e.handle);
    ok(p.status());
    e.execute(p);
    EXPECT_EQ(e.get(3), (Values{2, 4, 6, 8}));
    EXPECT_EQ(json_of(p), json);
    const auto counts = gx::cuda_testing::cudnn_counters();
    EXPECT_EQ(counts.plans, 1);
    EXPECT_EQ(counts.deserialized_plans, 1);
}
/// Refused, or a plan that computes something: never a crash of the double's own.
TEST_F(CudnnMisuse, OfJsonThatHasChanged) {
    Execution e;
    const std::string json = json_of(e.plan_of(convolution_of_one()));
    for (std::size_t i = 0; i < json.size(); ++i) {
        EXPECT_NE(plan_from(json.substr(0, i), e.handle).status(), CUDNN_STATUS_SUCCESS);
        for (const char other : {'9', ' ', '"', 'f', '\0'}) {
            std::string changed = json;
            changed[i] = other;
            (void)sentence_of([&] { (void)plan_from(changed, e.handle).status(); });
        }
    }
}
TEST_F(CudnnMisuse, OfWorkspaces) {
    Execution e;
    e.avoids_tensor_cores = true;
    e.put({.uid = 1, .dims = {1, 4, 1, 1}}, {1, 2, 3, 4});
    e.put({.uid = 2, .dims = {4, 4, 1, 1}}, Values(16, 1));
    e.put({.uid = 3, .dims = {1, 4, 1, 1}});
    const Graph g = convolution_of_one();
    const auto with_workspace = [&](void* workspace) {
        return sentence_of([&] {
            const Descriptor p = e.plan_of(g),
                             pack = e.pack_of({1, 2, 3}, {e.device(1), e.device(2), e.device(3)},
                                              workspace);
            ok(cudnnBackendExecute(e.handle, p.handle(), pack.handle()));
            ok(cudaStreamSynchronize(e.stream));
        });
    };
    EXPECT_NE(with_workspace(nullptr).find("no workspace, and the plan needs 131 bytes"),
              std::string::npos);
    EXPECT_NE(with_workspace(e.device(3)).find("the workspace overlaps"), std::string::npos);
    void* small = nullptr;
    ok(cudaMalloc(&small, 130));
    EXPECT_NE(with_workspace(small), "") << "one byte too small";
    cudaFree(small);
    ok(cudaMalloc(&small, 131));
    EXPECT_EQ(with_workspace(small), "");
    cudaFree(small);
}
TEST_F(CudnnMisuse, OfDescriptors) {
    Execution e;
    put_addition(e);
    EXPECT_NE(sentence_of([&] {
                  const Descriptor p(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR),
                      pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
                  ok(cudnnBackendExecute(e.handle, p.handle(), pack.handle()));
              }).find("not finalized"),
              std::string::npos);
    cudnnBackendDescriptor_t gone = nullptr;
    ok(cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &gone));
    ok(cudnnBackendDestroyDescriptor(gone));
    EXPECT_NE(sentence_of([&] { (void)cudnnBackendFinalize(gone); }).find("was destroyed"),
              std::string::npos);
    EXPECT_NE(sentence_of([&] { (void)cudnnBackendDestroyDescriptor(gone); }), "") << "twice";
}
TEST_F(CudnnMisuse, OfHandlesAndDevices) {
    cudnnHandle_t gone{};
    ok(cudnnCreate(&gone));
    ok(cudnnDestroy(gone));
    EXPECT_NE(sentence_of([&] { (void)cudnnSetStream(gone, nullptr); }).find("was destroyed"),
              std::string::npos);
    Execution e;
    put_addition(e);
    const Descriptor p = e.plan_of(addition());
    EXPECT_NE(sentence_of([&] {
                  ok(cudaSetDevice(1));
                  e.execute(p);
              }).find("device 1 is current"),
              std::string::npos);
    cudnnHandle_t other{};
    ok(cudaSetDevice(1));
    ok(cudnnCreate(&other));
    EXPECT_NE(sentence_of([&] {
                  const Descriptor pack =
                      e.pack_of({1, 2, 3}, {e.device(1), e.device(2), e.device(3)}, nullptr);
                  ok(cudnnBackendExecute(other, p.handle(), pack.handle()));
              }).find("made with a handle of device 0"),
              std::string::npos);
    ok(cudnnDestroy(other));
    ok(cudaSetDevice(0));
}
TEST_F(CudnnMisuse, OfStreams) {
    // Two streams without a wait between them: the race detector knows what cuDNN reads and writes.
    Execution e;
    put_addition(e);
    const Descriptor p = e.plan_of(addition());
    cudaStream_t second{};
    ok(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    e.execute(p);
    EXPECT_NE(sentence_of([&] {
                  ok(cudaMemsetAsync(e.device(3), 0, 16, second));
                  ok(cudaStreamSynchronize(second));
                  ok(cudaStreamSynchronize(e.stream));
              }).find("cuDNN POINTWISE"),
              std::string::npos);
    cudaStreamDestroy(second);
}
TEST_F(CudnnMisuse, NothingRunsBeforeTheStream) {
    Execution e;
    put_addition(e);
    const auto before = gx::cuda_testing::counters();
    const Descriptor p = e.plan_of(addition());
    e.execute(p);
    EXPECT_EQ((gx::cuda_testing::counters() - before).operations, 0) << "queued, and late";
    EXPECT_EQ(e.get(3), (Values{2, 4, 6, 8}));
}
TEST_F(CudnnMisuse, ACaptureReplaysExecutions) {
    Execution e;
    put_addition(e);
    const Descriptor p = e.plan_of(addition());
    const Descriptor pack = e.pack_of({1, 2, 3}, {e.device(1), e.device(2), e.device(3)}, nullptr);
    cudaGraph_t graph{};
    cudaGraphExec_t executable{};
    ok(cudaStreamBeginCapture(e.stream, cudaStreamCaptureModeGlobal));
    ok(cudnnBackendExecute(e.handle, p.handle(), pack.handle()));
    cudnnHandle_t refused{};
    EXPECT_NE(sentence_of([&] { (void)cudnnCreate(&refused); }), "") << "it allocates";
    Execution again;
    put_addition(again);
    const Descriptor q = again.plan_of(addition());
    const Descriptor other =
        again.pack_of({1, 2, 3}, {again.device(1), again.device(2), again.device(3)}, nullptr);
    ok(cudaStreamBeginCapture(again.stream, cudaStreamCaptureModeGlobal));
    ok(cudnnBackendExecute(again.handle, q.handle(), other.handle()));
    ok(cudaStreamEndCapture(again.stream, &graph));
    ok(cudaGraphInstantiate(&executable, graph, 0));
    ok(cudaGraphLaunch(executable, again.stream));
    EXPECT_EQ(again.get(3), (Values{2, 4, 6, 8}));
    ok(cudaGraphExecDestroy(executable));
    ok(cudaGraphDestroy(graph));
}

// ---- Faults, GPUs -----------------------------------------------------------------------------

TEST_F(CudnnMisuse, FaultsAreInjected) {
    Execution e;
    put_addition(e);
    gx::cuda_testing::fail_cudnn_plan(1);
    EXPECT_EQ(e.plan_of(addition()).status(), CUDNN_STATUS_NOT_SUPPORTED);
    const Descriptor p = e.plan_of(addition());
    gx::cuda_testing::fail_cudnn_execution(2);
    e.execute(p);
    EXPECT_THROW(e.execute(p), std::runtime_error);
    gx::cuda_testing::fail_cudnn_allocation(1);
    EXPECT_EQ(Descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR).status(),
              CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
    gx::cuda_testing::fail_allocation(1);
    cudnnHandle_t h{};
    EXPECT_EQ(cudnnCreate(&h), CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED);
    gx::cuda_testing::fail_launch(1);
    EXPECT_THROW(e.execute(p), std::runtime_error);
    EXPECT_EQ(gx::cuda_testing::cudnn_counters().executions, 1);
    EXPECT_EQ(gx::cuda_testing::cudnn_counters().plans, 1);
}
TEST_F(CudnnMisuse, LeaksAreNamed) {
    cudnnBackendDescriptor_t t = nullptr;
    ok(cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &t));
    EXPECT_NE(sentence_of([] { gx::cuda_testing::expect_cudnn_clean(); }).find("TENSOR_DESCRIPTOR"),
              std::string::npos);
    ok(cudnnBackendDestroyDescriptor(t));
    gx::cuda_testing::expect_cudnn_clean();
}
TEST_F(CudnnMisuse, AV100RefusesWhatItsLibraryDoes) {
    const auto has_plan = [](CudnnGpu gpu, cudnnDataType_t t) {
        start(gpu);
        Execution e;
        Graph g;
        const Descriptor &a = g.tensor({1, 4, 8}, t), &b = g.tensor({1, 8, 16}, t),
                         &c = g.tensor({1, 4, 16}, t);
        g.matmul(a, b, c);
        try {
            return e.plan_of(g).status() == CUDNN_STATUS_SUCCESS;
        } catch (const std::runtime_error&) {
            return false;
        }
    };
    EXPECT_TRUE(has_plan(CudnnGpu::v100, fp16));
    EXPECT_FALSE(has_plan(CudnnGpu::v100, fp32));
    EXPECT_FALSE(has_plan(CudnnGpu::v100, bf16));
    EXPECT_TRUE(has_plan(CudnnGpu::h100, fp32));
    EXPECT_TRUE(has_plan(CudnnGpu::h100, bf16));
}

// ---- Names, and the stream of a handle ----------------------------------------------------------

/// What the double does not compute is refused as it is finalized, with the reason.
TEST_F(CudnnMisuse, OfWhatTheDoubleDoesNotHave) {
    const auto refused = [](cudnnStatus_t status, const std::string& reason) {
        EXPECT_EQ(status, CUDNN_STATUS_NOT_SUPPORTED) << reason;
        char sentence[512];
        cudnnGetLastErrorString(sentence, sizeof sentence);
        EXPECT_NE(std::string(sentence).find(reason), std::string::npos) << sentence;
    };
    for (const auto type : {CUDNN_DATA_DOUBLE, CUDNN_DATA_INT64, CUDNN_DATA_BOOLEAN,
                            CUDNN_DATA_FP8_E4M3, CUDNN_DATA_FP8_E5M2})
        for (const bool is_virtual : {false, true})
            refused(tensor({.dims = {1, 4, 1, 1}, .type = type, .is_virtual = is_virtual}).status(),
                    "a tensor of data type " + std::to_string(type) + " is not in this double.");
    refused(tensor({.dims = {1, 1, 1, 1}, .type = CUDNN_DATA_BOOLEAN, .by_value = true}).status(),
            "a scalar of data type 11 is not in this double.");
    for (const auto mode :
         {CUDNN_POINTWISE_CMP_GT, CUDNN_POINTWISE_MOD, CUDNN_POINTWISE_LOGICAL_AND,
          CUDNN_POINTWISE_ELU_FWD, CUDNN_POINTWISE_SWISH_BWD, CUDNN_POINTWISE_GEN_INDEX}) {
        Graph g;
        refused(g.mode(mode).status(),
                "pointwise mode " + std::to_string(mode) + " is not in this double.");
    }
    for (const auto op :
         {CUDNN_REDUCE_TENSOR_AMAX, CUDNN_REDUCE_TENSOR_AVG, CUDNN_REDUCE_TENSOR_NORM1,
          CUDNN_REDUCE_TENSOR_NORM2, CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS})
        refused(backend::reduction(op).status(),
                "reduction operator " + std::to_string(op) + " is not in this double.");
    for (const auto mode : {CUDNN_RESAMPLE_NEAREST, CUDNN_RESAMPLE_BILINEAR})
        refused(resample({.mode = mode}).status(),
                "resample mode " + std::to_string(mode) + " is not in this double.");
    for (const auto padding : {CUDNN_ZERO_PAD, CUDNN_EDGE_VAL_PAD})
        refused(resample({.padding = padding}).status(),
                "padding mode " + std::to_string(padding) + " of resample mode 3 is not in this");
}
TEST_F(CudnnMisuse, EachStatusHasItsName) {
    std::set<std::string> names;
    for (const auto status : {CUDNN_STATUS_SUCCESS,
                              CUDNN_STATUS_NOT_INITIALIZED,
                              CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH,
                              CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH,
                              CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED,
                              CUDNN_STATUS_BAD_PARAM,
                              CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                              CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
                              CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
                              CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND,
                              CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT,
                              CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH,
                              CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                              CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES,
                              CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
                              CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH,
                              CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
                              CUDNN_STATUS_NOT_SUPPORTED,
                              CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
                              CUDNN_STATUS_NOT_SUPPORTED_SHAPE,
                              CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
                              CUDNN_STATUS_NOT_SUPPORTED_LAYOUT,
                              CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING,
                              CUDNN_STATUS_INTERNAL_ERROR,
                              CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED,
                              CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
                              CUDNN_STATUS_EXECUTION_FAILED,
                              CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER}) {
        const std::string name = cudnnGetErrorString(status);
        EXPECT_EQ(name.find("CUDNN_STATUS_"), 0u) << name;
        EXPECT_TRUE(names.insert(name).second) << name;
    }
}
TEST_F(CudnnMisuse, AHandleKnowsItsStream) {
    const Execution e;
    cudaStream_t stream{};
    EXPECT_EQ(cudnnGetStream(e.handle, &stream), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(stream, e.stream);
    EXPECT_EQ(cudnnGetStream(e.handle, nullptr), CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(cudnnGetStream(nullptr, &stream), CUDNN_STATUS_BAD_PARAM);
}

}  // namespace
