#include "dnn.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <vector>

#include <gx/core/error.hpp>
#include <gx/core/rng.hpp>
#include <gx/cuda_testing/cudnn.hpp>
#include <gx/cuda_testing/runtime.hpp>
#include <gx/model/backward_needs.hpp>
#include <gx/model/cifar_resnet.hpp>
#include <gx/model/concept.hpp>
#include <gx/model/resnet.hpp>
#include <gx/reference/device.hpp>

namespace {

using namespace gx;
using cuda::Dnn;
using cuda::DnnLayer;
using cuda::DnnOptions;
using cuda::DnnPlan;
using cuda_testing::CudnnGpu;

void must(cudaError_t e) { ASSERT_EQ(e, cudaSuccess); }

void start(CudnnGpu gpu, std::uint64_t seed = 1) {
    cuda_testing::RuntimeOptions o;
    o.seed = seed;
    o.check_at_exit = false;
    cuda_testing::reset(o);
    cuda_testing::reset_cudnn({.gpu = gpu, .seed = seed});
}

/// Memory of the device with elements of E, put and got as double.
class Tensor {
public:
    Tensor(ElementType e, std::size_t count) : type_(e), count_(count) {
        must(cudaMalloc(&device_, bytes()));
        must(cudaMallocHost(&pinned_, bytes()));
    }
    Tensor(const Tensor&) = delete;
    Tensor& operator=(const Tensor&) = delete;
    ~Tensor() {
        cudaFree(device_);
        cudaFreeHost(pinned_);
    }
    void put(const std::vector<double>& v, cudaStream_t s) {
        for (std::size_t i = 0; i < count_; ++i) {
            const auto x = static_cast<float>(v[i]);
            if (type_ == ElementType::fp32) static_cast<float*>(pinned_)[i] = x;
            else
                static_cast<std::uint16_t*>(pinned_)[i] =
                    type_ == ElementType::fp16 ? fp16::encode(x) : bf16::encode(x);
        }
        must(cudaMemcpyAsync(device_, pinned_, bytes(), cudaMemcpyHostToDevice, s));
        must(cudaStreamSynchronize(s));
    }
    [[nodiscard]] std::vector<double> get(cudaStream_t s) {
        must(cudaMemcpyAsync(pinned_, device_, bytes(), cudaMemcpyDeviceToHost, s));
        must(cudaStreamSynchronize(s));
        std::vector<double> v(count_);
        for (std::size_t i = 0; i < count_; ++i)
            v[i] =
                double{type_ == ElementType::fp32
                           ? static_cast<const float*>(pinned_)[i]
                           : (type_ == ElementType::fp16
                                  ? fp16::decode(static_cast<const std::uint16_t*>(pinned_)[i])
                                  : bf16::decode(static_cast<const std::uint16_t*>(pinned_)[i]))};
        return v;
    }
    operator const void*() const { return device_; }  // NOLINT(google-explicit-constructor)

private:
    [[nodiscard]] std::size_t bytes() const {
        return count_ * (type_ == ElementType::fp32 ? 4 : 2);
    }
    ElementType type_;
    std::size_t count_;
    void *device_ = nullptr, *pinned_ = nullptr;
};

/// (n, c, h, w) as (n, h, w, c), and back.
std::vector<double> channels_last(std::span<const double> v, std::int64_t n, std::int64_t c,
                                  std::int64_t pixels, bool back = false) {
    std::vector<double> to(v.size());
    for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t k = 0; k < c; ++k)
            for (std::int64_t p = 0; p < pixels; ++p) {
                const auto planar = static_cast<std::size_t>((i * c + k) * pixels + p);
                const auto last = static_cast<std::size_t>((i * pixels + p) * c + k);
                back ? to[planar] = v[last] : to[last] = v[planar];
            }
    return to;
}

double largest(std::span<const double> v) {
    double m = 0;
    for (const double x : v) m = std::max(m, std::abs(x));
    return m;
}

/// One step of the reference device, and every layer of it by cuDNN on the reference's tensors.
class Layers {
public:
    Layers(const Graph& graph, ElementType e, int batch, CudnnGpu gpu)
        : graph_(graph), e_(e), batch_(batch), reference_(graph, {.batch = batch, .compute = e}) {
        start(gpu);
        step();
    }
    /// Compares all layers; returns how many plans ran.
    int compare() {
        must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
        {
            Dnn dnn(stream_, {.compute = e_});
            const auto needed = gradient_tensors(graph_);
            for (const Op& op : graph_.ops) {
                const bool input = op.inputs[0] >= 0 && needed[std::size_t(op.inputs[0])] != 0;
                const DnnLayer layer = dnn.layer(graph_, op, batch_, input);
                void* workspace = nullptr;
                must(cudaMalloc(&workspace, std::size_t(dnn.workspace_bytes()) + 1));
                SCOPED_TRACE(std::string(to_string(op.kind)) + " " + std::string(op.name.view()));
                compare_layer(dnn, op, layer, workspace);
                must(cudaStreamSynchronize(stream_));
                cudaFree(workspace);
            }
        }
        cudaStreamDestroy(stream_);
        cuda_testing::expect_cudnn_clean();
        EXPECT_EQ(cuda_testing::cudnn_counters().nondeterministic_executions, 0);
        EXPECT_EQ(cuda_testing::cudnn_counters().tf32_executions, 0);
        return static_cast<int>(cuda_testing::cudnn_counters().executions);
    }

private:
    void step() {
        const Rng random(7, "layers");
        reference_.update([&](std::span<float> p) {
            for (std::size_t i = 0; i < p.size(); ++i) p[i] = random.at(1).uniform(i) - 0.5f;
        });
        std::vector<float> images(std::size_t(batch_) * std::size_t(graph_.input.elements()));
        for (std::size_t i = 0; i < images.size(); ++i) images[i] = 2 * random.at(2).uniform(i) - 1;
        std::vector<std::int32_t> labels(static_cast<std::size_t>(batch_));
        for (std::size_t i = 0; i < labels.size(); ++i)
            labels[i] = static_cast<std::int32_t>(i) % graph_.classes;
        reference_.forward({.images = images, .labels = labels, .count = batch_}, Mode::train);
        std::vector<float> gradients(reference_.parameters().size());
        reference_.backward(1, gradients, [](std::size_t) {});
    }
    [[nodiscard]] const ImageShape& shape(int t) const { return graph_.tensors[std::size_t(t)]; }
    [[nodiscard]] std::vector<double> last(std::span<const double> v, int t) const {
        return channels_last(v, batch_, shape(t).channels,
                             std::int64_t{shape(t).height} * shape(t).width);
    }
    std::unique_ptr<Tensor> upload(const std::vector<double>& v, ElementType e) {
        auto t = std::make_unique<Tensor>(e, v.size());
        t->put(v, stream_);
        return t;
    }
    std::unique_ptr<Tensor> activation(int t) {
        return upload(last(reference_.activation(t), t), e_);
    }
    std::unique_ptr<Tensor> gradient(int t) {
        return upload(last(reference_.activation_gradient(t), t), e_);
    }
    /// `terms` products of at most `product`: inputs rounded to float (2 u each), one product and
    /// `terms` additions, each of u = 2^-24 of the sum of magnitudes; then one rounding to `stored`
    /// here, and one in the reference.
    void expect_near(std::unique_ptr<Tensor> got, const std::vector<double>& expected,
                     std::int64_t terms, double product, ElementType stored) {
        const double n = static_cast<double>(terms), sum = n * product;
        const double unit = stored == ElementType::fp32   ? 0x1p-24
                            : stored == ElementType::fp16 ? 0x1p-11
                                                          : 0x1p-8;
        const double reference_unit = e_ == ElementType::fp32   ? 0
                                      : e_ == ElementType::fp16 ? 0x1p-11
                                                                : 0x1p-8;
        const double least = e_ == ElementType::fp16 ? 0x1p-24 : 0x1p-130;  // subnormals
        const auto values = got->get(stream_);
        ASSERT_EQ(values.size(), expected.size());
        for (std::size_t i = 0; i < values.size(); ++i)
            ASSERT_NEAR(values[i], expected[i],
                        1.01 * ((n + 3) * 0x1p-24 * sum +
                                (unit + reference_unit) * std::abs(expected[i]) + least))
                << "element " << i;
    }
    /// Whether `op` alone writes the gradient of its input.
    [[nodiscard]] bool is_only_reader(const Op& op, int input) const {
        int readers = 0;
        for (const Op& o : graph_.ops) readers += (o.inputs[0] == input) + (o.inputs[1] == input);
        return readers == 1 && op.inputs[0] == input;
    }

    void compare_layer(Dnn& dnn, const Op& op, const DnnLayer& layer, void* workspace) {
        if (layer.forward == nullptr) return;
        const int in = op.inputs[0], out = op.output;
        const bool product = op.kind == OpKind::conv2d || op.kind == OpKind::linear;
        const auto x = activation(in), dy = gradient(out);
        auto y = std::make_unique<Tensor>(e_, reference_.activation(out).size());
        auto dx = std::make_unique<Tensor>(e_, reference_.activation(in).size());
        const auto expected_y = last(reference_.activation(out), out);
        const auto expected_dx = last(reference_.activation_gradient(in), in);
        const std::int64_t window = std::int64_t{op.window.height} * op.window.width;
        const double most_dy = largest(reference_.activation_gradient(out));
        if (product) return compare_product(dnn, op, layer, workspace);
        const bool compares_dx = layer.input_gradient != nullptr && is_only_reader(op, in);
        Tensor index(ElementType::fp32, reference_.activation(out).size());
        layer.forward->run(dnn.handle(), {*x, *y, index}, workspace);  // max_pool
        if (compares_dx) {
            layer.input_gradient->run(dnn.handle(), {*dy, index, *dx}, workspace);
            expect_near(std::move(dx), expected_dx, window, most_dy, e_);
        }
        expect_near(std::move(y), expected_y, 1, 0, e_);
    }

    void compare_product(Dnn& dnn, const Op& op, const DnnLayer& layer, void* workspace) {
        const int in = op.inputs[0], out = op.output;
        const Parameter& w = graph_.parameters[std::size_t(op.first_parameter)];
        const std::int64_t pixels = std::int64_t{w.shape[2]} * w.shape[3];
        const auto slice = [&](std::span<const double> flat, const Parameter& p) {
            return flat.subspan(std::size_t(p.offset), std::size_t(p.count));
        };
        const auto weights = slice(reference_.working_copy(), w);
        const auto weight = upload(channels_last(weights, w.shape[0], w.shape[1], pixels), e_);
        const auto x = activation(in), dy = gradient(out);
        const double most_w = largest(weights), most_x = largest(reference_.activation(in)),
                     most_dy = largest(reference_.activation_gradient(out));
        const bool has_bias = op.parameter_count > 1;
        const Parameter& b = graph_.parameters[std::size_t(op.first_parameter + has_bias)];
        const auto biases = slice(reference_.working_copy(), b);
        auto y = std::make_unique<Tensor>(e_, reference_.activation(out).size());
        if (has_bias) {
            const auto bias = upload({biases.begin(), biases.end()}, e_);
            layer.forward->run(dnn.handle(), {*x, *weight, *bias, *y}, workspace);
            must(cudaStreamSynchronize(stream_));
        } else {
            layer.forward->run(dnn.handle(), {*x, *weight, *y}, workspace);
        }
        const double bias_size = has_bias ? largest(biases) : 0;
        expect_near(std::move(y), last(reference_.activation(out), out), w.shape[1] * pixels + 1,
                    std::max(most_w * most_x, bias_size), e_);
        if (layer.input_gradient != nullptr && is_only_reader(op, in)) {
            auto dx = std::make_unique<Tensor>(e_, reference_.activation(in).size());
            layer.input_gradient->run(dnn.handle(), {*dy, *weight, *dx}, workspace);
            expect_near(std::move(dx), last(reference_.activation_gradient(in), in),
                        w.shape[0] * pixels, most_w * most_dy, e_);
        }
        const std::int64_t sums = std::int64_t{batch_} * shape(out).height * shape(out).width;
        auto dw = std::make_unique<Tensor>(layer.weight_gradient_type, weights.size());
        layer.weight_gradient->run(dnn.handle(), {*x, *dy, *dw}, workspace);
        const auto expected = slice(reference_.parameter_gradient(), w);
        expect_near(std::move(dw), channels_last(expected, w.shape[0], w.shape[1], pixels), sums,
                    most_x * most_dy, layer.weight_gradient_type);
        if (!has_bias) return;
        auto db = std::make_unique<Tensor>(ElementType::fp32, biases.size());
        layer.bias_gradient->run(dnn.handle(), {*dy, *db}, workspace);
        const auto bias_gradients = slice(reference_.parameter_gradient(), b);
        expect_near(std::move(db), {bias_gradients.begin(), bias_gradients.end()}, sums, most_dy,
                    ElementType::fp32);
    }

    const Graph& graph_;
    ElementType e_;
    int batch_;
    reference::Device reference_;
    cudaStream_t stream_{};
};

/// All kinds of layers: biases, groups, strides, windows that lie over the edge, odd sizes.
Graph small_graph() {
    GraphBuilder b("small", {3, 9, 9}, 5);
    int x = b.conv2d(0, {.channels = 8, .window = Window::square(3, 1, 1)}, "stem");
    x = b.relu(x, "relu1");
    x = b.max_pool(x, Window::square(3, 2, 1), "max");
    const int skip = x;
    x = b.conv2d(x, {.channels = 8, .window = Window::square(3, 1, 1), .groups = 2, .bias = true},
                 "grouped");
    x = b.add(x, skip, "add");
    x = b.relu(x, "relu2");
    x = b.conv2d(x, {.channels = 12, .window = {3, 1, 2, 1, 0}}, "tall");
    x = b.avg_pool(x, Window::square(2, 1, 1), "mean");
    x = b.global_avg_pool(x, "global");
    x = b.flatten(x, "flatten");
    x = b.linear(x, 5, true, "fc");
    b.softmax_cross_entropy(x, 0, "loss");
    return std::move(b).finish();
}

TEST(Dnn, LayersEqualTheReference) {
    const Graph graph = small_graph();
    for (const CudnnGpu gpu : {CudnnGpu::v100, CudnnGpu::h100})
        for (const ElementType e : {ElementType::fp32, ElementType::fp16, ElementType::bf16}) {
            if (gpu == CudnnGpu::v100 && e == ElementType::bf16) continue;
            SCOPED_TRACE(std::string(to_string(e)) + (gpu == CudnnGpu::v100 ? ", V100" : ", H100"));
            EXPECT_GE(Layers(graph, e, 3, gpu).compare(), 14);
        }
}

TEST(Dnn, LayersOfAResNetEqualTheReference) {
    const Graph graph = gx::graph<CifarResNet<8>>({.input = {3, 16, 16}});
    for (const ElementType e : {ElementType::fp32, ElementType::fp16})
        EXPECT_GE(Layers(graph, e, 2, CudnnGpu::h100).compare(), 25);
}

/// cuDNN's places in a window are int8.
TEST(Dnn, PoolsWindowsOf128Elements) {
    const auto pooled = [](int width) {
        GraphBuilder b("pooled", {4, 8, width}, 4);
        const int x = b.max_pool(0, {8, width, 1, 0, 0}, "largest");
        b.softmax_cross_entropy(b.flatten(x, "flatten"), 0, "loss");
        return std::move(b).finish();
    };
    EXPECT_GE(Layers(pooled(16), ElementType::fp32, 2, CudnnGpu::h100).compare(), 1);
    EXPECT_THROW(Layers(pooled(17), ElementType::fp32, 2, CudnnGpu::h100).compare(), Error);
}

// ---- Choice of engines --------------------------------------------------------------------------

/// A 1 x 1 convolution of 8 to 4 channels, 2 x 2 pixels, without a bias.
Graph one_convolution(int channels = 8) {
    GraphBuilder b("one", {channels, 2, 2}, 4);
    const int x = b.conv2d(0, {.channels = 4}, "only");
    b.softmax_cross_entropy(b.flatten(b.global_avg_pool(x, "mean"), "flatten"), 0, "loss");
    return std::move(b).finish();
}
std::string error_of(const std::function<void()>& f) {
    try {
        f();
    } catch (const Error& e) {
        return e.what();
    }
    return "";
}

TEST(Dnn, UsesTf32OnlyWhenAsked) {
    const Graph graph = one_convolution();
    for (const bool tf32 : {false, true}) {
        start(CudnnGpu::h100);
        cudaStream_t s{};
        must(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
        {
            Dnn dnn(s, {.tf32 = tf32});
            const DnnLayer layer = dnn.layer(graph, graph.ops[1], 1);
            Tensor x(ElementType::fp32, 32), w(ElementType::fp32, 32), y(ElementType::fp32, 16),
                workspace(ElementType::fp32, 1000);
            x.put(std::vector<double>(32, 1 + 0x1p-11), s);
            w.put(std::vector<double>(32, 1), s);
            layer.forward->run(dnn.handle(), {x, w, y},
                               const_cast<void*>(static_cast<const void*>(workspace)));
            EXPECT_EQ(y.get(s)[0], tf32 ? 8 + 0x1p-7 : 8 + 0x1p-8);
            EXPECT_EQ(cuda_testing::cudnn_counters().tf32_executions, tf32 ? 1 : 0);
        }
        cudaStreamDestroy(s);
    }
}
TEST(Dnn, SharesPlansOfEqualShapes) {
    start(CudnnGpu::h100);
    const Graph graph = gx::graph<CifarResNet<20>>();
    Dnn dnn(nullptr, {});
    int layers = 0;
    for (const Op& op : graph.ops) {
        if (op.kind != OpKind::conv2d) continue;
        const DnnLayer layer = dnn.layer(graph, op, 4);
        ++layers;
        EXPECT_LE(layer.forward->workspace_bytes(), dnn.workspace_bytes());
        EXPECT_EQ(layer.forward->name(), "conv2d '" + std::string(op.name.view()) + "', forward");
    }
    EXPECT_EQ(layers, 21);
    EXPECT_EQ(cuda_testing::cudnn_counters().plans, 3 * 8)
        << "the stem; 3x3 at 3 widths, 3x3/2 and 1x1/2 into 2 of them";
    for (const Op& op : graph.ops) (void)dnn.layer(graph, op, 4);
    const auto planned = cuda_testing::cudnn_counters().plans;
    for (const Op& op : graph.ops) (void)dnn.layer(graph, op, 4);
    EXPECT_EQ(cuda_testing::cudnn_counters().plans, planned) << "nothing is planned twice";
}
TEST(Dnn, WeightGradientsAreFp32WhereAnEngineStoresThem) {
    start(CudnnGpu::h100);
    const auto type_of = [](int channels, DnnOptions o) {
        o.compute = ElementType::fp16;
        const Graph graph = one_convolution(channels);
        return Dnn(nullptr, o).layer(graph, graph.ops[1], 1).weight_gradient_type;
    };
    EXPECT_EQ(type_of(8, {}), ElementType::fp32);
    EXPECT_EQ(type_of(3, {}), ElementType::fp16) << "three channels";
    EXPECT_EQ(type_of(8, {.fp32_weight_gradients = false}), ElementType::fp16);
}
TEST(Dnn, TakesTheNextEngineWhereOneIsRefused) {
    start(CudnnGpu::h100);
    const Graph graph = one_convolution();
    {
        Dnn dnn(nullptr, {.tf32 = true});
        cuda_testing::fail_cudnn_plan(1);
        EXPECT_NE(dnn.layer(graph, graph.ops[1], 1).forward, nullptr) << "TF32 is refused";
    }
    start(CudnnGpu::v100);
    Dnn dnn(nullptr, {});
    cuda_testing::fail_cudnn_plan(1, CUDNN_STATUS_NOT_SUPPORTED, 100);
    const std::string error = error_of([&] { (void)dnn.layer(graph, graph.ops[1], 1); });
    EXPECT_NE(
        error.find("conv2d 'only', forward: cuDNN 9.10.2 has no plan for fp32 convolution "
                   "(1, 8, 2, 2) to (1, 4, 2, 2) by (4, 8, 1, 1) 1x1/1 pad 0,0 on GPU 0 (sm_"),
        std::string::npos)
        << error;
    EXPECT_NE(error.find("4 engines proposed, 2 excluded for their notes, the last refusal: "
                         "CUDNN_STATUS_NOT_SUPPORTED: CUDNN_BACKEND_EXECUTION_PLAN"),
              std::string::npos)
        << error;
    cuda_testing::fail_cudnn_plan(0);
    EXPECT_NE(dnn.layer(graph, graph.ops[1], 1).forward, nullptr) << "a failed plan is not kept";
}
TEST(Dnn, SaysWhatAGpuLacks) {
    start(CudnnGpu::v100);
    const Graph graph = one_convolution();
    const std::string error = error_of(
        [&] { (void)Dnn(nullptr, {.compute = ElementType::bf16}).layer(graph, graph.ops[1], 1); });
    EXPECT_NE(error.find("conv2d 'only', forward: cuDNN 9.10.2 has no plan for bf16 convolution"),
              std::string::npos)
        << error;
    EXPECT_NE(error.find("0 engines proposed"), std::string::npos) << error;
    cuda_testing::fail_cudnn_allocation(1);
    EXPECT_NE(error_of([] { Dnn dnn(nullptr, {}); }).find("cudnnCreate on GPU 0"),
              std::string::npos);
    cuda_testing::expect_cudnn_clean();
}
TEST(Dnn, ErrorsNameTheLayerThatRuns) {
    start(CudnnGpu::h100);
    GraphBuilder b("two", {8, 2, 2}, 8);
    const int first = b.conv2d(0, {.channels = 8}, "first");
    const int second = b.conv2d(first, {.channels = 8}, "second");
    b.softmax_cross_entropy(b.flatten(b.global_avg_pool(second, "mean"), "flatten"), 0, "loss");
    const Graph graph = std::move(b).finish();
    Dnn dnn(nullptr, {});
    for (int op : {1, 2, 1}) {
        const DnnPlan& plan = *dnn.layer(graph, graph.ops[std::size_t(op)], 1).forward;
        Tensor x(ElementType::fp32, 32), w(ElementType::fp32, 64), y(ElementType::fp32, 32),
            space(ElementType::fp32, 64);
        cuda_testing::fail_cudnn_execution(1);
        const std::string error = error_of([&] {
            plan.run(dnn.handle(), {x, w, y}, const_cast<void*>(static_cast<const void*>(space)));
        });
        EXPECT_NE(error.find(op == 1 ? "conv2d 'first', forward: " : "conv2d 'second', forward: "),
                  std::string::npos)
            << error;
    }
}
TEST(Dnn, RefusesAnotherMajorVersion) {
    start(CudnnGpu::h100);
    cuda_testing::reset_cudnn({.version = 8907});
    EXPECT_EQ(error_of([] { Dnn dnn(nullptr, {}); }),
              "cuDNN 8.9.7 was loaded, and gx was compiled with cuDNN 9. Put libcudnn.so.9 on the "
              "loader's path, or build gx again.");
    cuda_testing::reset_cudnn({.version = 100'000});
    EXPECT_NE(error_of([] { Dnn dnn(nullptr, {}); }).find("cuDNN 10.0.0 was loaded"),
              std::string::npos);
}
TEST(Dnn, FailedExecutionsAreErrors) {
    start(CudnnGpu::h100);
    const Graph graph = one_convolution();
    Dnn dnn(nullptr, {});
    const DnnPlan& plan = *dnn.layer(graph, graph.ops[1], 1).forward;
    Tensor x(ElementType::fp32, 32), w(ElementType::fp32, 32), y(ElementType::fp32, 16),
        space(ElementType::fp32, 64);
    void* const workspace = const_cast<void*>(static_cast<const void*>(space));
    cuda_testing::fail_cudnn_execution(1);
    EXPECT_NE(error_of([&] {
                  plan.run(dnn.handle(), {x, w, y}, workspace);
              }).find("conv2d 'only', forward: CUDNN_STATUS_EXECUTION_FAILED"),
              std::string::npos);
    EXPECT_DEATH(plan.run(dnn.handle(), {x, w}, workspace), "2 pointers, expected 3");
    EXPECT_DEATH(plan.run(dnn.handle(), {x, w, y}, nullptr), "needs a workspace of 131 bytes");
    EXPECT_DEATH((void)dnn.layer(graph, graph.ops[1], 0), "for at least one image");
}

}  // namespace
