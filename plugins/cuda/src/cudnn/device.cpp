#include <gx/cuda/device.hpp>

#include <algorithm>  // max
#include <bit>        // bit_floor
#include <cstring>    // memcpy
#include <optional>   // a layer
#include <string>     // sentences

#include <gx/core/contract.hpp>     // GX_EXPECT
#include <gx/core/error.hpp>        // LostRank
#include <gx/cuda/error.hpp>        // expect
#include <gx/memory/buffer.hpp>     // Buffer
#include <gx/model/timed_only.hpp>  // expect_numbers

#include "../network_kernels.hpp"
#include "batch_buffers.hpp"
#include "network.hpp"
#include "network_plan.hpp"
#include "parameter_layout.hpp"

namespace gx::cuda {

namespace {

using detail::NetworkPlan;
using detail::ParameterLayout;

std::int64_t elements(const Graph& graph, int batch) { return batch * graph.input.elements(); }

const Graph& checked(const Graph& graph, const DeviceOptions& o) {
    expect_numbers(graph);
    GX_EXPECT(o.batch > 0, "a device is built for a batch of at least one image");
    GX_EXPECT(!graph.ops.empty() && graph.ops.back().kind == OpKind::softmax_cross_entropy,
              "a graph ends with its loss: call softmax_cross_entropy last");
    return graph;
}

/// The GPU, current in this thread, after what it must be able to compute.
DeviceContext& checked(DeviceContext& gpu, const DeviceOptions& o) {
    gpu.use();
    int major = 0, minor = 0;
    expect(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu.device()),
           "cudaDeviceGetAttribute", gpu.device());
    expect(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, gpu.device()),
           "cudaDeviceGetAttribute", gpu.device());
    if ((o.compute == ElementType::bf16 || o.tf32) && major < 8)
        throw Error("GPU " + std::to_string(gpu.device()) + " (sm_" + std::to_string(major) +
                    std::to_string(minor) + ") does not compute in " + (o.tf32 ? "tf32" : "bf16") +
                    ", which begins at sm_80. Use Compute<fp16>" + (o.tf32 ? " or <fp32>." : "."));
    return gpu;
}

std::int64_t working_bytes(const ParameterLayout& layout, ElementType compute) {
    return compute == ElementType::fp32 ? 0 : 2 * static_cast<std::int64_t>(layout.elements());
}

/// Memory of the GPU that a device of this batch allocates and, in the first phase of a run, which
/// has none yet, the gradients in flight, the sum of micro-batches and the state of the optimizer.
std::int64_t all_bytes(const NetworkPlan& plan, const ParameterLayout& layout, const Graph& graph,
                       int batch, const DeviceOptions& o) {
    const auto parameters = static_cast<std::int64_t>(layout.elements());
    const std::int64_t shard = (parameters + o.update.shards - 1) / o.update.shards;
    const std::int64_t gradients = o.gradients + (o.update.micro_batches > 1 ? 1 : 0);
    const std::int64_t of_run =
        o.phase == 0 ? gradients * parameters + shard * o.update.state_vectors : 0;
    const std::int64_t images = std::int64_t{batch} * o.update.micro_batches;
    return plan.bytes() + working_bytes(layout, o.compute) + 4 * (parameters + of_run) +
           4 * graph.statistic_elements() +
           2 * detail::BatchLayout(graph, images, o.update.micro_batches).bytes;
}

/// Those of two steps: the host waits for steps that are as old. Each pass records one for each
/// parameter, and so does what adds the sum of the passes before to the gradients of the last.
int events(const Graph& graph, const DeviceOptions& o) {
    const int k = o.update.micro_batches;
    const auto of_a_pass = static_cast<int>(graph.parameters.size());
    return std::max(QueueOptions().events, 2 * ((k > 1 ? k + 1 : k) * of_a_pass + 32));
}

/// What is needed is rounded up, what is free or fits down, so that the greater one reads so.
class Amounts {
public:
    /// In units that show a few digits of `bytes`.
    explicit Amounts(std::int64_t bytes) : is_small_(bytes < 10'000'000) {}
    [[nodiscard]] std::string needed(std::int64_t bytes) const { return text(bytes + unit() - 1); }
    [[nodiscard]] std::string free(std::int64_t bytes) const { return text(bytes); }

private:
    [[nodiscard]] std::int64_t unit() const { return is_small_ ? 1'000 : 1'000'000; }
    [[nodiscard]] std::string text(std::int64_t bytes) const {
        return std::to_string(bytes / unit()) + (is_small_ ? " KB" : " MB");
    }
    bool is_small_;
};

/// The plan of the batch. Errors: gx::Error where it needs more than the GPU has left.
NetworkPlan fitting_plan(const DeviceContext& gpu, const Graph& graph, const DeviceOptions& o,
                         Dnn& dnn, const ParameterLayout& layout) {
    std::size_t free = 0, all = 0;
    expect(cudaMemGetInfo(&free, &all), "cudaMemGetInfo", gpu.device());
    const auto bytes = [&](const NetworkPlan& plan, int batch) {
        return all_bytes(plan, layout, graph, batch, o);
    };
    NetworkPlan plan(graph, dnn, o.batch, o.compute);
    if (bytes(plan, o.batch) <= static_cast<std::int64_t>(free)) return plan;
    int fits = 0;
    for (auto step = static_cast<int>(std::bit_floor(static_cast<unsigned>(o.batch))); step > 0;
         step /= 2)
        if (fits + step < o.batch && bytes(NetworkPlan(graph, dnn, fits + step, o.compute),
                                           fits + step) <= static_cast<std::int64_t>(free))
            fits += step;
    const std::int64_t needed = bytes(plan, o.batch);
    const Amounts amounts(needed);
    std::string remedy = "Not even a batch of 1 fits.";
    if (fits > 0)
        remedy = "A batch of " + std::to_string(fits) + " fits (" +
                 amounts.free(bytes(NetworkPlan(graph, dnn, fits, o.compute), fits)) +
                 "), and buffers of the reducer come on top: a smaller one leaves them room.";
    throw Error("GPU " + std::to_string(gpu.device()) + ": '" + std::string(graph.name.view()) +
                "' with a batch of " + std::to_string(o.batch) + " needs " +
                amounts.needed(needed) + ", workspaces of cuDNN among them, and " +
                amounts.free(static_cast<std::int64_t>(free)) + " are free. " + remedy);
}

}  // namespace

class Device::State {
public:
    State(DeviceContext& gpu, const Graph& graph, const DeviceOptions& o)
        : graph_(checked(graph, o)),
          options_(o),
          layout_(graph_, o.compute),
          queue_(checked(gpu, o), "compute", {.events = events(graph_, o)}),
          dnn_(queue_.stream(), {.compute = o.compute,
                                 .tf32 = o.tf32,
                                 .deterministic = o.deterministic,
                                 .fp32_weight_gradients = false}),
          plan_(fitting_plan(gpu, graph_, o, dnn_, layout_)),
          arena_(&gpu.memory(), plan_.bytes(), "arena"),
          parameters_(&gpu.memory(), static_cast<std::int64_t>(layout_.elements()), "parameters"),
          working_(&gpu.memory(), working_bytes(layout_, o.compute), "working copy"),
          statistics_(&gpu.memory(), graph_.statistic_elements(), "statistics"),
          batches_(queue_, graph_, o.batch, o.update.micro_batches),
          checks_(plan_.checks()),
          checked_(&gpu.memory(), std::ssize(checks_), "checked activations"),
          counts_(&gpu.memory(), std::ssize(checks_) + 1, "numbers that are not finite"),
          network_(make_network()) {
        dnn_.save_plans();
        std::vector<float> initial;
        for (const Statistic& s : graph_.statistics)
            initial.insert(initial.end(), static_cast<std::size_t>(s.count), s.initial);
        queue_.copy_in(std::span<const float>(initial), statistics_.view<Memory>(), {"statistics"});
        std::vector<CheckedActivation> checked;
        for (const NetworkPlan::Check& c : checks_) checked.push_back(plan_.checked(c));
        queue_.copy_in(std::span<const CheckedActivation>(checked), checked_.view<Memory>(),
                       {"checked activations"});
    }
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
        try {
            (void)queue_.wait(queue_.record());
        } catch (const Error&) {  // of the device, which its other calls throw too
        }
    }

    [[nodiscard]] Queue& queue() { return queue_; }
    [[nodiscard]] const ParameterLayout& layout() const { return layout_; }
    [[nodiscard]] View<float> parameters() { return parameters_.view<Memory>(); }
    [[nodiscard]] View<float> statistics() { return statistics_.view<Memory>(); }
    [[nodiscard]] std::int64_t arena_bytes() const { return plan_.bytes(); }
    [[nodiscard]] const std::string& warning() const { return dnn_.cache_warning(); }

    void load(std::span<const Batch> parts, float rate) {
        GX_EXPECT(!parts.empty() && std::ssize(parts) <= options_.update.micro_batches,
                  "a load of " + std::to_string(parts.size()) + " parts: expected 1 to " +
                      std::to_string(options_.update.micro_batches) +
                      ", the micro-batches that the device was built for");
        for (const Batch& part : parts) expect_fits(part);
        loaded_ = batches_.load(parts, rate);
        next_ = 0;
        mode_ = Mode::evaluate;
    }
    [[nodiscard]] ScalarIn<float, Memory> rate() const {
        GX_EXPECT(!loaded_.empty(), "a rate follows a load");
        return {Memory::view(loaded_[0].rate.data, 1)};
    }
    [[nodiscard]] int batch_slot() const { return batches_.slot(); }
    void forward(Mode mode, View<ForwardReport> report) {
        GX_EXPECT(!loaded_.empty(), "forward follows a load");
        const detail::LoadedBatch& batch = loaded_[next_];
        next_ = (next_ + 1) % loaded_.size();
        mode_ = mode;
        count_ = batch.count;
        const auto at = Memory::open(report);
        network_->forward({batch, mode}, at);
        network_->check(at, Memory::open(checked_.view<Memory>()), open_counts());
    }
    void backward(DeviceSpan<const float> scale, View<float> gradients, GradientsQueued ready) {
        GX_EXPECT(mode_ == Mode::train, "backward follows a forward in Mode::train");
        GX_EXPECT(gradients.size() == layout_.elements(), "one gradient for each parameter");
        network_->backward(scale, Memory::open(gradients),
                           [&](std::size_t watermark) { ready(watermark, queue_.record()); });
        mode_ = Mode::evaluate;  // gradients are where activations were
    }
    void refresh() { network_->refresh(); }

    [[nodiscard]] std::optional<std::string> first_non_finite() {
        std::vector<std::uint32_t> counts(counts_.size());
        get(View<const std::uint32_t>(counts_.view<Memory>()), std::span(counts));
        if (counts.back() == 0) return std::nullopt;
        for (std::size_t i = 0; i < checks_.size(); ++i)
            if (counts[i] > 0) return name_of(*checks_[i].blamed);
        return name_of(graph_.ops.back());
    }
    [[nodiscard]] std::vector<float> logits() {
        std::vector<float> values(static_cast<std::size_t>(count_ * graph_.classes));
        const auto& memory = plan_.memory(plan_.activation(graph_.ops.back().inputs[0]));
        const auto bytes = arena_.view<Memory>().subspan(
            static_cast<std::size_t>(memory.offset),
            values.size() * (options_.compute == ElementType::fp32 ? 4 : 2));
        std::vector<std::byte> stored(bytes.size());
        get(View<const std::byte>(bytes), std::span(stored));
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = decoded(stored, i);
        return values;
    }

    template <class T>
    void get(View<const T> from, std::span<T> to) {
        queue_.copy_out(from, to, {"copy out"});
        wait();
    }
    void put(std::span<const float> from, View<float> to) {
        queue_.copy_in(from, to, {"copy in"});
        wait();
    }

private:
    static std::string name_of(const Op& op) {
        return std::string(to_string(op.kind)) + " '" + std::string(op.name.view()) + "'";
    }
    void wait() {
        if (const Delivery d = queue_.wait(queue_.record()); !d.complete())
            throw LostRank({.operation = "waiting for the device"}, d);
    }
    void expect_fits(const Batch& batch) const {
        GX_EXPECT(batch.count >= 0 && batch.count <= options_.batch,
                  "a batch of " + std::to_string(batch.count) + " images: expected 0 to " +
                      std::to_string(options_.batch) + ", which the device was built for");
        GX_EXPECT(batch.elements() == static_cast<std::size_t>(elements(graph_, batch.count)),
                  "a batch holds count images of the graph's input shape");
        GX_EXPECT(batch.labels.size() == static_cast<std::size_t>(batch.count),
                  "a batch holds one label for each image");
        for (const std::int32_t label : batch.labels)
            GX_EXPECT(label >= 0 && label < graph_.classes, "label " + std::to_string(label) +
                                                                ": expected 0 to " +
                                                                std::to_string(graph_.classes - 1));
        expect_second_labels(batch, graph_.classes);
    }
    /// Of each checked activation; the last: whether any was checked.
    [[nodiscard]] DeviceSpan<std::uint32_t> open_counts() {
        return Memory::open(counts_.view<Memory>());
    }
    [[nodiscard]] float decoded(const std::vector<std::byte>& from, std::size_t i) const {
        float value = 0;
        std::uint16_t half = 0;
        if (options_.compute == ElementType::fp32) {
            std::memcpy(&value, &from[4 * i], sizeof(value));
            return value;
        }
        std::memcpy(&half, &from[2 * i], sizeof(half));
        return options_.compute == ElementType::fp16 ? fp16::decode(half) : bf16::decode(half);
    }
    [[nodiscard]] std::unique_ptr<detail::Network> make_network() {
        const auto master = Memory::open(parameters());
        const auto working = Memory::open(working_.view<Memory>());
        const bool is_fp32 = options_.compute == ElementType::fp32;
        return detail::make_network(
            options_.compute,
            {.graph = &graph_,
             .plan = &plan_,
             .layout = &layout_,
             .dnn = &dnn_,
             .stream = queue_.stream(),
             .memory = {.arena = Memory::open(arena_.view<Memory>()),
                        .parameters = master,
                        .working =
                            is_fp32 ? reinterpret_cast<std::byte*>(master.data) : working.data,
                        .statistics = Memory::open(statistics())},
             .batch = options_.batch,
             .seed = options_.seed,
             .rank = options_.rank});
    }

    Graph graph_;
    DeviceOptions options_;
    ParameterLayout layout_;
    Queue queue_;
    Dnn dnn_;
    NetworkPlan plan_;
    Buffer<std::byte> arena_;
    Buffer<float> parameters_;
    Buffer<std::byte> working_;  ///< in E; none in fp32
    Buffer<float> statistics_;
    detail::BatchBuffers batches_;
    std::vector<NetworkPlan::Check> checks_;
    Buffer<CheckedActivation> checked_;
    Buffer<std::uint32_t> counts_;
    std::unique_ptr<detail::Network> network_;
    std::span<const detail::LoadedBatch> loaded_{};  ///< parts of the last load
    std::size_t next_ = 0;                           ///< the part that the next forward is of
    Mode mode_ = Mode::evaluate;                     ///< train: a backward may follow
    int count_ = 0;                                  ///< of the last forward
};

Device::Device(DeviceContext& gpu, const Graph& graph, DeviceOptions options)
    : state_(std::make_unique<State>(gpu, graph, options)) {}
Device::~Device() = default;

Queue& Device::queue() { return state_->queue(); }
void Device::load(std::span<const Batch> parts, float rate) { state_->load(parts, rate); }
ScalarIn<float, Device::Memory> Device::rate() const { return state_->rate(); }
int Device::batch_slot() const { return state_->batch_slot(); }
void Device::forward(Mode mode, View<ForwardReport> report) { state_->forward(mode, report); }
void Device::backward(ScalarIn<float, Memory> scale, View<float> gradients, GradientsQueued ready) {
    state_->backward(Memory::open(scale), gradients, ready);
}
Device::View<const float> Device::parameters() const { return state_->parameters(); }
std::span<const ParameterSlice> Device::slices() const { return state_->layout().slices(); }
void Device::update(FunctionRef<void(View<float>)> change) {
    change(state_->parameters());
    state_->refresh();
}
Device::View<float> Device::statistics() { return state_->statistics(); }
void Device::to_canonical(View<const float> mine, std::span<float> canonical) {
    std::vector<float> here(mine.size());
    state_->get(mine, std::span(here));
    state_->layout().to_canonical(here, canonical);
}
void Device::from_canonical(std::span<const float> canonical, View<float> mine) {
    std::vector<float> here(mine.size());
    state_->layout().from_canonical(canonical, here);
    state_->put(here, mine);
}
std::optional<std::string> Device::first_non_finite() { return state_->first_non_finite(); }
std::vector<float> Device::logits() { return state_->logits(); }
std::int64_t Device::arena_bytes() const { return state_->arena_bytes(); }
const std::string& Device::warning() const { return state_->warning(); }

}  // namespace gx::cuda
