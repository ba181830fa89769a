#include "dnn.hpp"

#include <algorithm>   // max
#include <cctype>      // isalnum
#include <cstdint>     // uintptr_t
#include <filesystem>  // plans of earlier runs
#include <span>        // hash_bytes
#include <utility>     // move
#include <vector>      // configurations

#include <gx/core/contract.hpp>     // GX_EXPECT
#include <gx/core/error.hpp>        // Error
#include <gx/core/hash_bits.hpp>    // hash_bytes
#include <gx/cuda/queued_call.hpp>  // queued_call

#include "../space_to_depth.hpp"
#include "descriptors.hpp"

namespace gx::cuda {

namespace {

using detail::DnnGraph;
using detail::DnnShape;

cudnnDataType_t data_type(ElementType e) {
    return e == ElementType::fp32   ? CUDNN_DATA_FLOAT
           : e == ElementType::fp16 ? CUDNN_DATA_HALF
                                    : CUDNN_DATA_BFLOAT16;
}

DnnShape shape_of(const Graph& graph, int tensor, int batch) {
    const ImageShape& s = graph.tensors[static_cast<std::size_t>(tensor)];
    return {batch, s.channels, s.height, s.width};
}

std::string name_of(const Op& op) {
    return std::string(to_string(op.kind)) + " '" + std::string(op.name.view()) + "'";
}

std::string window_text(const Window& w) {
    return std::to_string(w.height) + "x" + std::to_string(w.width) + "/" +
           std::to_string(w.stride) + " pad " + std::to_string(w.pad_height) + "," +
           std::to_string(w.pad_width);
}

/// Values of an attribute of a finalized descriptor.
template <class T>
std::vector<T> get(const void* d, cudnnBackendAttributeName_t name,
                   cudnnBackendAttributeType_t type, std::int64_t at_most) {
    std::vector<T> values(static_cast<std::size_t>(at_most));
    std::int64_t count = 0;
    detail::expect(
        cudnnBackendGetAttribute(const_cast<void*>(d), name, type, at_most, &count, values.data()),
        "cudnnBackendGetAttribute");
    values.resize(static_cast<std::size_t>(count));
    return values;
}

/// What the engine of a configuration says of its numbers.
std::vector<cudnnBackendNumericalNote_t> notes_of(const void* configuration) {
    const DnnDescriptor engine = detail::make_descriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    void* into = engine.get();
    std::int64_t count = 0;
    detail::expect(
        cudnnBackendGetAttribute(const_cast<void*>(configuration), CUDNN_ATTR_ENGINECFG_ENGINE,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &into),
        "cudnnBackendGetAttribute");
    return get<cudnnBackendNumericalNote_t>(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                            CUDNN_TYPE_NUMERICAL_NOTE,
                                            CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
}

/// Configurations that heuristics propose for the graph, the preferred first; none where they fail.
std::vector<DnnDescriptor> propose(const DnnDescriptor& graph, cudnnBackendHeurMode_t mode,
                                   const DnnDescriptor& device, std::string& refusal) {
    const DnnDescriptor heuristics = detail::make_descriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    detail::set_part(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get());
    detail::set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
    if (device) detail::set_part(heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device.get());
    std::vector<DnnDescriptor> found;
    if (const cudnnStatus_t status = cudnnBackendFinalize(heuristics.get());
        status != CUDNN_STATUS_SUCCESS) {
        refusal = detail::last_refusal(status);
        return found;
    }
    std::int64_t count = 0;
    detail::expect(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                            CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
                   "cudnnBackendGetAttribute");
    if (count == 0) return found;
    std::vector<void*> into;
    for (std::int64_t i = 0; i < count; ++i)
        into.push_back(
            found.emplace_back(detail::make_descriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)).get());
    detail::expect(
        cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, into.data()),
        "cudnnBackendGetAttribute");
    found.resize(static_cast<std::size_t>(count));
    return found;
}

}  // namespace

// ---- Plans ------------------------------------------------------------------------------------

void DnnPlan::run(cudnnHandle_t handle, std::initializer_list<const void*> pointers,
                  void* workspace) const {
    GX_EXPECT(pointers.size() == tensors_, name_ + ": " + std::to_string(pointers.size()) +
                                               " pointers, expected " + std::to_string(tensors_));
    GX_EXPECT(workspace_bytes_ == 0 || workspace != nullptr,
              name_ + ": it needs a workspace of " + std::to_string(workspace_bytes_) + " bytes");
    for (const void* const p : pointers)
        GX_EXPECT(reinterpret_cast<std::uintptr_t>(p) % alignment_bytes == 0,
                  name_ + ": a tensor is not aligned to 16 bytes");
    CallHash hash;
    for (const void* const p : pointers) hash.add(p);
    const auto call = [&] { return execute(handle, pointers, workspace); };
    detail::expect(queued_call("cudnnBackendExecute", call, this, hash.value(), workspace), name_);
}

cudnnStatus_t DnnPlan::execute(cudnnHandle_t handle, std::initializer_list<const void*> pointers,
                               void* workspace) const {
    std::vector<std::int64_t> uids;
    for (std::size_t i = 0; i < tensors_; ++i) uids.push_back(static_cast<std::int64_t>(i) + 1);
    const DnnDescriptor pack = detail::make_descriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    detail::set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, uids);
    detail::set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                std::vector<const void*>(pointers));
    detail::set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
    detail::finalize(pack, name_);
    return cudnnBackendExecute(handle, plan_.get(), pack.get());
}

// TF32 is an engine's note of tensor cores where products are of fp32; engines that are compiled at
// run time carry that note for pointwise operations, too, which no tensor core computes.
bool Dnn::is_selected(const void* configuration, Precision precision) const {
    const bool products = precision == Precision::product;
    for (const cudnnBackendNumericalNote_t note : notes_of(configuration)) switch (note) {
            case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
                if (options_.deterministic) return false;
                break;
            case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
            case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
                return false;  // to fp16, without a scale
            case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
                if (products && options_.compute == ElementType::fp32 && !options_.tf32)
                    return false;
                break;
            case CUDNN_NUMERICAL_NOTE_FFT:
            case CUDNN_NUMERICAL_NOTE_WINOGRAD:
            case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
            case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
            case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
                if (!options_.transforms) return false;
                break;
            default: break;
        }
    return true;
}

std::optional<DnnPlan> Dnn::choose(const DnnGraph& graph, Precision precision,
                                   std::string& refusal) {
    const DnnDescriptor finished = graph.finish(handle_.get());
    int proposed = 0, refused = 0;
    // B ranks products as well as A does, and weight gradients of few channels better; the rest it
    // leaves to A.
    for (const auto mode : {CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK})
        for (const DnnDescriptor& configuration : propose(finished, mode, device_, refusal)) {
            ++proposed;
            if (!is_selected(configuration.get(), precision)) continue;
            DnnDescriptor plan = detail::make_descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
            detail::set_part(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration.get());
            detail::set_plan_handle(plan, handle_.get());
            if (device_)
                detail::set_part(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device_.get());
            if (const cudnnStatus_t status = cudnnBackendFinalize(plan.get());
                status != CUDNN_STATUS_SUCCESS) {
                ++refused;
                refusal = detail::last_refusal(status);
                continue;
            }
            return plan_of(std::move(plan), graph);
        }
    refusal = std::to_string(proposed) + " engines proposed, " +
              std::to_string(proposed - refused) + " excluded for their notes" +
              (refusal.empty() ? "" : ", the last refusal: " + refusal);
    return std::nullopt;
}

DnnPlan Dnn::plan_of(DnnDescriptor finalized, const DnnGraph& graph) {
    DnnPlan made;
    made.workspace_bytes_ =
        get<std::int64_t>(finalized.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                          CUDNN_TYPE_INT64, 1)
            .at(0);
    made.tensors_ = graph.tensors_in_memory();
    made.plan_ = std::move(finalized);
    return made;
}

// ---- Plans of earlier runs --------------------------------------------------------------------

/// Of what libcudnn compares before it takes a plan, and of the GPU's name.
detail::PlanCache Dnn::cache_of_gpu() {
    const std::filesystem::path folder = detail::PlanCache::folder();
    int device = 0, driver = 0;
    cudaDeviceProp p{};
    if (folder.empty() || cudaGetDevice(&device) != cudaSuccess ||
        cudaDriverGetVersion(&driver) != cudaSuccess ||
        cudaGetDeviceProperties(&p, device) != cudaSuccess)
        return {};
    std::string name = "cudnn-" + std::to_string(cudnnGetVersion()) + "-" + p.name + "-sm_" +
                       std::to_string(p.major) + std::to_string(p.minor) + "-" +
                       std::to_string(p.multiProcessorCount) + "-driver-" + std::to_string(driver);
    std::ranges::replace_if(
        name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '_'; }, '-');
    return {folder / (name + ".plans"), name};
}

std::uint64_t Dnn::cache_key(const DnnGraph& graph, Precision p) const {
    std::string all = graph.signature();
    for (const bool bit : {p == Precision::product, options_.tf32, options_.transforms,
                           options_.compute == ElementType::fp32, !options_.deterministic})
        all += bit ? '1' : '0';
    all += "heuristics B";  // which choose() asks: plans that others preferred stay in the cache
    return hash_bytes(std::as_bytes(std::span(all)));
}

std::optional<DnnPlan> Dnn::cached(const DnnGraph& graph, Precision precision) {
    const std::uint64_t key = cache_key(graph, precision);
    const std::string* const text = cache_.find(key);
    if (text == nullptr) return std::nullopt;
    DnnDescriptor plan = detail::make_descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    detail::set_plan_handle(plan, handle_.get());
    cudnnStatus_t status = cudnnBackendSetAttribute(
        plan.get(), CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
        static_cast<std::int64_t>(text->size()), text->data());
    if (status == CUDNN_STATUS_SUCCESS) status = cudnnBackendFinalize(plan.get());
    if (status != CUDNN_STATUS_SUCCESS) {
        cache_.refuse(key, detail::last_refusal(status));
        return std::nullopt;
    }
    try {
        const DnnDescriptor configuration =
            detail::make_descriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        void* into = configuration.get();
        std::int64_t count = 0;
        detail::expect(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                                CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &into),
                       "cudnnBackendGetAttribute");
        if (is_selected(configuration.get(), precision)) return plan_of(std::move(plan), graph);
        cache_.refuse(key, "its engine is excluded for its notes");
    } catch (const Error& e) {  // what cuDNN does not answer of a plan that it has read
        cache_.refuse(key, e.what());
    }
    return std::nullopt;
}

/// No-op for a plan that cuDNN does not serialise.
void Dnn::cache(const DnnPlan& plan, std::uint64_t key) {
    std::int64_t bytes = 0;
    const auto get_text = [&](std::string& to) {
        return cudnnBackendGetAttribute(plan.descriptor(),
                                        CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                        CUDNN_TYPE_CHAR, std::ssize(to), &bytes,
                                        to.empty() ? nullptr : to.data()) == CUDNN_STATUS_SUCCESS;
    };
    std::string text;
    if (device_ || !get_text(text) || bytes <= 0) return;
    text.resize(static_cast<std::size_t>(bytes));
    if (get_text(text)) cache_.keep(key, std::move(text));
}

std::string Dnn::gpu() const {
    if (device_) return "the GPU described by JSON";
    int device = 0, major = 0, minor = 0;
    (void)cudaGetDevice(&device);
    (void)cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    (void)cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    return "GPU " + std::to_string(device) + " (sm_" + std::to_string(major) +
           std::to_string(minor) + ")";
}

template <class Make>
const DnnPlan* Dnn::plan(const std::string& key, const std::string& name, Precision precision,
                         Make make, bool may_lack) {
    auto at = plans_.find(key);
    if (at == plans_.end()) {
        DnnGraph graph;
        make(graph);
        std::string refusal;
        std::optional<DnnPlan> made = cached(graph, precision);
        if (!made) {
            made = choose(graph, precision, refusal);
            if (made) cache(*made, cache_key(graph, precision));
        }
        if (!made && !may_lack)
            throw Error(name + ": " + detail::dnn_version() + " has no plan for " + key + " on " +
                        gpu() + ": " + refusal +
                        ". Use another Compute, or a layer of another shape.");
        if (made) workspace_bytes_ = std::max(workspace_bytes_, made->workspace_bytes_);
        at = plans_.emplace(key, std::move(made)).first;
    }
    if (!at->second) return nullptr;
    DnnPlan& named = named_.try_emplace({key, name}, *at->second).first->second;
    named.name_ = name;
    return &named;
}

// ---- Layers -----------------------------------------------------------------------------------

Dnn::Dnn(cudaStream_t stream, DnnOptions options) : options_(options) {
    if (cudnnGetVersion() / 10000 != CUDNN_MAJOR)
        throw Error(detail::dnn_version() + " was loaded, and gx was compiled with cuDNN " +
                    std::to_string(CUDNN_MAJOR) + ". Put libcudnn.so." +
                    std::to_string(CUDNN_MAJOR) + " on the loader's path, or build gx again.");
    cudnnHandle_t handle = nullptr;
    detail::expect(cudnnCreate(&handle), "cudnnCreate on " + gpu());
    handle_.reset(handle);
    detail::expect(cudnnSetStream(handle, stream), "cudnnSetStream");
    cache_ = cache_of_gpu();
}

Dnn::Dnn(const std::string& device_json, DnnOptions options)
    : device_(detail::make_descriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)), options_(options) {
    detail::set(device_, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                std::vector<char>(device_json.begin(), device_json.end()));
    detail::finalize(device_, "device properties");
}

DnnLayer Dnn::layer(const Graph& graph, const Op& op, int batch, const Wants& wants) {
    GX_EXPECT(batch > 0, "plans are for at least one image");
    switch (op.kind) {
        case OpKind::conv2d:
        case OpKind::linear: return convolution(graph, op, batch, wants);
        case OpKind::max_pool: return max_pool(graph, op, batch, wants.input_gradient);
        default: return {};
    }
}

/// Shapes of a convolution's tensors, and what it is called.
struct Dnn::Product {
    DnnShape x, weight, y;
    DnnGraph::Convolution conv;
    bool has_bias = false, may_lack = false;
    std::string what, name;
};

DnnLayer Dnn::convolution(const Graph& graph, const Op& op, int batch, const Wants& wants) {
    const DnnShape x = shape_of(graph, op.inputs[0], batch), y = shape_of(graph, op.output, batch);
    const bool is_linear = op.kind == OpKind::linear;
    const Window window = is_linear ? Window{} : op.window;
    const std::int64_t groups = is_linear ? 1 : op.groups;
    const DnnShape weight{y.c, x.c / groups, window.height, window.width};
    const DnnGraph::Padding padding{window.pad_height, window.pad_width};
    return product({.x = x,
                    .weight = weight,
                    .y = y,
                    .conv = {window.stride, padding, padding},
                    .has_bias = op.parameter_count > 1,
                    .may_lack = false,
                    .what = std::string(to_string(options_.compute)) + " convolution " + x.text() +
                            " to " + y.text() + " by " + weight.text() + " " + window_text(window),
                    .name = name_of(op)},
                   wants);
}

DnnLayer Dnn::convolution_of_blocks(const Graph& graph, const Op& op, int batch,
                                    const SpaceToDepth& s) {
    const DnnShape x{batch, s.padded(), s.height / 2, s.width / 2},
        y = shape_of(graph, op.output, batch), weight{y.c, x.c, s.taps_y(), s.taps_x()};
    const auto height = static_cast<int>(y.h), width = static_cast<int>(y.w);
    return product(
        {.x = x,
         .weight = weight,
         .y = y,
         .conv = {1, {s.before_y(), s.before_x()}, {s.behind_y(height), s.behind_x(width)}},
         .has_bias = false,
         .may_lack = true,
         .what = std::string(to_string(options_.compute)) + " convolution of blocks " + x.text() +
                 " to " + y.text() + " by " + weight.text() + " pad " +
                 std::to_string(s.before_y()) + "," + std::to_string(s.before_x()),
         .name = name_of(op)},
        {.input_gradient = false});
}

DnnLayer Dnn::product(const Product& p, const Wants& wants) {
    const auto& [x, weight, y, conv, has_bias, may_lack, what, name] = p;
    const DnnShape bias{1, y.c, 1, 1};
    const cudnnDataType_t t = data_type(options_.compute);
    DnnLayer layer{.weight_gradient_type = options_.compute};
    layer.forward = plan(
        what + (has_bias ? " + bias" : ""), name + ", forward", Precision::product,
        [&](DnnGraph& g) {
            void *const a = g.tensor(x, t), *const w = g.tensor(weight, t);
            void* const b = has_bias ? g.tensor(bias, t) : nullptr;
            void* const to = g.tensor(y, t);
            void* const sums = has_bias ? g.virtual_tensor(y) : to;
            g.convolve(conv, a, w, sums);
            if (has_bias) g.pointwise(CUDNN_POINTWISE_ADD, sums, b, to);
        },
        may_lack);
    if (wants.sums && !has_bias && options_.compute == ElementType::fp16 && x.c % 8 == 0 &&
        x.c >= 32 && y.c % 8 == 0)
        layer.forward_with_sums = plan(
            what + " + sums", name + ", forward with sums", Precision::product,
            [&](DnnGraph& g) {
                void *const a = g.tensor(x, t), *const w = g.tensor(weight, t),
                            *const to = g.tensor(y, t);
                void *const sum = g.tensor(bias, CUDNN_DATA_FLOAT), *const squares = g.tensor(
                                                                        bias, CUDNN_DATA_FLOAT);
                g.convolve(conv, a, w, to);
                g.statistics(to, sum, squares);
            },
            true);
    if (wants.input_gradient)
        layer.input_gradient = plan("input gradient of " + what, name + ", input gradient",
                                    Precision::product, [&](DnnGraph& g) {
                                        void *const dy = g.tensor(y, t), *const w =
                                                                             g.tensor(weight, t);
                                        g.convolve_input_gradient(conv, dy, w, g.tensor(x, t));
                                    });
    if (options_.fp32_weight_gradients && options_.compute != ElementType::fp32) {
        layer.weight_gradient = plan(
            "fp32 weight gradient of " + what, name + ", weight gradient", Precision::product,
            [&](DnnGraph& g) {
                void *const a = g.tensor(x, t), *const dy = g.tensor(y, t),
                            *const sums = g.virtual_tensor(weight);
                g.convolve_weight_gradient(conv, a, dy, sums);
                g.pointwise(CUDNN_POINTWISE_IDENTITY, sums, nullptr,
                            g.tensor(weight, CUDNN_DATA_FLOAT));
            },
            true);
        if (layer.weight_gradient != nullptr) layer.weight_gradient_type = ElementType::fp32;
    }
    if (layer.weight_gradient == nullptr)
        layer.weight_gradient = plan(
            "weight gradient of " + what, name + ", weight gradient", Precision::product,
            [&](DnnGraph& g) {
                void *const a = g.tensor(x, t), *const dy = g.tensor(y, t);
                g.convolve_weight_gradient(conv, a, dy, g.tensor(weight, t));
            },
            may_lack);
    if (has_bias)
        layer.bias_gradient =
            plan(std::string(to_string(options_.compute)) + " sums of channels of " + y.text(),
                 name + ", bias gradient", Precision::pointwise, [&](DnnGraph& g) {
                     void* const dy = g.tensor(y, t);
                     g.sum(dy, g.tensor(bias, CUDNN_DATA_FLOAT));
                 });
    return layer;
}

DnnLayer Dnn::max_pool(const Graph& graph, const Op& op, int batch, bool input) {
    const DnnShape x = shape_of(graph, op.inputs[0], batch), y = shape_of(graph, op.output, batch);
    const std::string name = name_of(op);
    if (op.window.height * op.window.width > 128)
        throw Error(name + ": a window of " + window_text(op.window) +
                    "; cuDNN's places in a window are int8, of at most 128.");
    const cudnnDataType_t t = data_type(options_.compute);
    const std::string what = std::string(to_string(options_.compute)) + " max_pool " + x.text() +
                             " to " + y.text() + " by " + window_text(op.window);
    DnnLayer layer;
    layer.forward = plan(what, name + ", forward", Precision::pointwise, [&](DnnGraph& g) {
        void *const a = g.tensor(x, t), *const to = g.tensor(y, t);
        g.max_pool(op.window, a, to, g.tensor(y, CUDNN_DATA_INT8));
    });
    if (input)
        layer.input_gradient =
            plan("input gradient of " + what, name + ", input gradient", Precision::pointwise,
                 [&](DnnGraph& g) {
                     void *const dy = g.tensor(y, t), *const index = g.tensor(y, CUDNN_DATA_INT8);
                     g.max_pool_gradient(op.window, dy, index, g.tensor(x, t));
                 });
    return layer;
}

}  // namespace gx::cuda
