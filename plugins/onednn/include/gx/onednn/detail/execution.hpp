// execution: one device's plan, memory and counters; what onednn::Device calls.
#pragma once

#include <algorithm>  // min, fill
#include <atomic>     // layers that threads take
#include <cmath>      // isfinite
#include <cstdint>    // int64_t
#include <optional>   // first_non_finite
#include <span>       // flat vectors
#include <string>     // names of layers
#include <thread>     // owner
#include <vector>     // logits

#include <gx/core/cold.hpp>               // GX_COLD
#include <gx/core/contract.hpp>           // GX_EXPECT
#include <gx/core/device.hpp>             // Batch, DeviceOptions
#include <gx/core/error.hpp>              // Error
#include <gx/core/trivial_vector.hpp>     // lists
#include <gx/model/graph.hpp>             // Graph
#include <gx/model/timed_only.hpp>        // expect_numbers
#include <gx/onednn/detail/cpu_bf16.hpp>  // expect_bf16
#include <gx/onednn/detail/planner.hpp>   // Planner
#include <gx/onednn/detail/team.hpp>      // run_team
#include <gx/onednn/tuning.hpp>           // Tuning, Counters, MemoryUse

namespace gx::onednn::detail {

/// The members of gx::Device, with the meanings that onednn::Device documents. It is apart from
/// it so that programs on gx::compiled parse neither oneDNN's headers nor the planner.
class Execution {
public:
    GX_COLD Execution(const Graph& graph, DeviceOptions options, Tuning tuning)
        : graph_(expect_numbers(graph)),
          options_(options),
          tuning_(completed(tuning)),
          lanes_(lane_count(tuning)),
          shapes_(graph_, options.compute, channels_last(graph_, options, tuning)),
          statistics_(initial_statistics(graph_)),
          owner_(std::this_thread::get_id()) {
        GX_EXPECT(options.batch > 0, "a device is built for a batch of at least one image");
        GX_EXPECT(!graph.ops.empty() && graph.ops.back().kind == OpKind::softmax_cross_entropy,
                  "a graph ends with its loss: call softmax_cross_entropy last");
        try {
            build();
        } catch (const LibraryError& e) {
            throw Error("gx::onednn: oneDNN cannot plan '" + std::string(graph.name.view()) +
                        "': " + e.what() + "; try reference::Device, or report the shape");
        }
        Owners::instance().enter(owner_);
    }
    GX_COLD ~Execution() { Owners::instance().leave(owner_); }
    Execution(const Execution&) = delete;
    Execution& operator=(const Execution&) = delete;

    ForwardReport forward(const Batch& batch, Mode mode) {
        accept(batch, mode);
        if (batch.count == 0) return {};
        plan(batch.count);
        place(batch.count);
        const auto blocks = blocks_allocated().load(std::memory_order_relaxed);
        for (const Segment* s : program_.forward) run_segment(*s);
        note_allocations(blocks);
        const ForwardReport report = collect();
        if (!report.finite) trace_non_finite();
        return report;
    }

    void backward(float scale, std::span<float> gradients, GradientsReady ready) {
        GX_EXPECT(run_.mode == Mode::train, "backward follows a forward in Mode::train");
        GX_EXPECT(gradients.size() == parameters_->total(),
                  "one gradient for each element of parameters()");
        run_.scale = scale;
        run_.gradients = gradients;
        ++counters_.steps;
        if (run_.batch.count == 0) {
            std::fill(gradients.begin(), gradients.end(), 0.0f);
            return ready(0);
        }
        const auto blocks = blocks_allocated().load(std::memory_order_relaxed);
        std::size_t reported = gradients.size();
        for (const Segment* s : program_.backward) {
            run_segment(*s);
            if (!s->moves_watermark) continue;
            reported = s->watermark;
            ready(reported);
        }
        note_allocations(blocks);
        if (reported > 0 || gradients.empty()) ready(0);
    }

    [[nodiscard]] std::span<const float> parameters() const { return parameters_->values(); }
    [[nodiscard]] std::span<const ParameterSlice> slices() const { return parameters_->slices(); }
    void update(FunctionRef<void(std::span<float>)> change) {
        change(parameters_->values());
        parameters_->round();
        refresh();
    }
    void in_shares(FunctionRef<void(int, int)> f) {
        const int shares = threads();
        run_team(shares, [&](int share) { f(share, shares); });
    }
    [[nodiscard]] std::span<float> statistics() { return {statistics_.data(), statistics_.size()}; }

    void to_canonical(std::span<const float> mine, std::span<float> canonical) const {
        expect_sizes(mine.size(), canonical.size());
        parameters_->for_each_element(
            [&](std::size_t c, std::size_t m) { canonical[c] = mine[m]; });
    }
    void from_canonical(std::span<const float> canonical, std::span<float> mine) const {
        expect_sizes(mine.size(), canonical.size());
        std::fill(mine.begin(), mine.end(), 0.0f);
        parameters_->for_each_element(
            [&](std::size_t c, std::size_t m) { mine[m] = canonical[c]; });
    }
    [[nodiscard]] std::optional<std::string> first_non_finite() const { return non_finite_; }

    // ---- beyond the concept -------------------------------------------------------------
    [[nodiscard]] const Counters& counters() const { return counters_; }
    /// Floats of activations and their gradients, of all images together.
    [[nodiscard]] std::int64_t arena_floats() const { return arena_.size(); }
    GX_COLD [[nodiscard]] MemoryUse memory() const {
        MemoryUse use = fullest();
        const std::int64_t live =
            use.activations + use.activations_again + use.activation_gradients + use.arena_scratch;
        use.arena_gaps = 4 * arena_.size() - live;
        use.parameters = 4 * static_cast<std::int64_t>(parameters_->total());
        std::int64_t copies = parameters_->rounded_floats() + lanes_.copy.size();
        const OwnedList<Convolution>& all = parameters_->convolutions();
        for (int i = 0; i < all.count(); ++i)
            if (all.has(i)) copies += all[i].copied_floats();
        for (const Linear* l : parts_.linears) copies += l->copied_floats();
        use.weight_copies = 4 * copies;
        use.lane_gradients = 4 * parts_.gradients.floats();
        use.scratch = 4 * lanes_.floats();
        return use;
    }
    /// The kernels that oneDNN chose for a convolution, as in "forward: jit:avx512_core, ...".
    [[nodiscard]] std::string kernels(int op) const {
        return parameters_->convolution(op).kernels();
    }
    /// The logits of the last forward, until backward. Shapes: (count, classes), row-major.
    GX_COLD [[nodiscard]] std::vector<float> logits() const {
        const auto classes = static_cast<std::size_t>(graph_.classes);
        std::vector<float> all(static_cast<std::size_t>(run_.batch.count) * classes);
        for (std::size_t i = 0; i < all.size(); ++i)
            with_number(parts_.loss.logits->type, [&]<class E>(E) {
                const E* row = parts_.loss.logits->image_of<E>(static_cast<int>(i / classes));
                all[i] = static_cast<float>(parts_.loss.logit(row, static_cast<int>(i % classes)));
            });
        return all;
    }

private:
    /// What lives in the segment in which most does.
    GX_COLD [[nodiscard]] MemoryUse fullest() const {
        MemoryUse most{};
        std::int64_t most_bytes = -1;
        for (int time = 0; time < program_.forward.count() + program_.backward.count(); ++time) {
            std::int64_t of[3] = {};
            for (const Buffer* b : program_.buffers)
                if (b != parts_.images && b->first <= time && time <= b->last)
                    of[static_cast<int>(b->use)] += b->bytes();
            const Segment& s = segment_at(time);
            const std::int64_t scratch = s.scratch_offset < 0 ? 0 : 4 * scratch_of_lanes(s);
            if (of[0] + of[1] + of[2] + scratch <= most_bytes) continue;
            most_bytes = of[0] + of[1] + of[2] + scratch;
            most = {.activations = of[0],
                    .activations_again = of[1],
                    .activation_gradients = of[2],
                    .arena_scratch = scratch};
        }
        return most;
    }
    GX_COLD static bool channels_last(const Graph& graph, const DeviceOptions& options,
                                      const Tuning& t) {
        if (options.compute != ElementType::bf16) return false;
        const CpuBf16 cpu = cpu_bf16();
        expect_bf16(cpu);
        for (const Op& op : graph.ops)
            if (op.kind == OpKind::conv2d && leaves_block_unfilled(graph, op)) return false;
        if (t.bf16_channels == ChannelOrder::automatic) return cpu.unit == Bf16Unit::tiles;
        return t.bf16_channels == ChannelOrder::last;
    }
    /// Whether a convolution has groups and channels that leave a block unfilled: with groups
    /// oneDNN pads the channels, which it does in blocks alone.
    GX_COLD static bool leaves_block_unfilled(const Graph& graph, const Op& op) {
        const auto filled = [&](int tensor) {
            return graph.tensors[static_cast<std::size_t>(tensor)].channels % cpu_block() == 0;
        };
        return op.groups > 1 && !(filled(op.inputs[0]) && filled(op.output));
    }
    /// Makes what is derived from the parameters anew. Threads share the layers, which are apart.
    void refresh() {
        std::atomic<int> next{0}, copies{0};
        run_team(threads(), [&](int thread) {
            const OwnedList<Convolution>& all = parameters_->convolutions();
            for (int i = next++; i < all.count(); i = next++)
                if (all.has(i)) copies += all[i].refresh(thread);
        });
        for (Linear* l : parts_.linears) l->refresh();
        counters_.weight_repacks += copies;
    }
    [[nodiscard]] int threads() const {
        const Owners& owners = Owners::instance();
        return std::min(
            {tuning_.threads > 0 ? tuning_.threads : owners.threads_each(options_.at_once),
             lanes_.count(), most_threads});
    }
    static int lane_count(const Tuning& t) {
        return t.lanes > 0 ? t.lanes : std::min(16, Owners::cores());
    }
    static Tuning completed(Tuning t) {
        if (t.chunk_bytes == 0) t.chunk_bytes = usual_chunk_bytes(cpu_is_intel());
        return t;
    }
    GX_COLD static TrivialVector<float> initial_statistics(const Graph& graph) {
        TrivialVector<float> all;
        for (const Statistic& s : graph.statistics)
            all.resize(all.size() + static_cast<std::size_t>(s.count), s.initial);
        return all;
    }
    GX_COLD void build() {
        const OneOpenMpThread alone;
        parameters_.emplace(graph_, shapes_, tuning_, 1, lanes_);
        Planner(graph_, options_, statistics(), shapes_, *parameters_, lanes_.count(), parts_,
                program_);
        for (Buffer* b : program_.buffers)
            if (b != parts_.images) make_room(*b);
        labels_.resize(static_cast<std::size_t>(options_.batch));
        second_labels_.resize(static_cast<std::size_t>(options_.batch));
        planned_.assign(static_cast<std::size_t>(options_.batch) + 1, false);
        run_.lanes = lanes_.count();
        run_.counters = &counters_;
        plan(options_.batch);
        make_arena();
    }
    /// For the buffers, and for the scratch memory that a whole batch needs.
    GX_COLD void make_arena() {
        TrivialVector<Interval> lives;
        for (const Buffer* b : program_.buffers)
            if (b != parts_.images) lives.push_back({(b->bytes() + 3) / 4, b->first, b->last});
        for (int time = 0; time < times(); ++time)
            if (const Segment& s = segment_at(time); s.scratch_floats > 0)
                lives.push_back({scratch_of_lanes(s), time, time});
        arena_ = Memory(pack({lives.data(), lives.size()}));
        std::size_t i = 0;
        for (Buffer* b : program_.buffers)
            if (b != parts_.images) b->data = arena_.data() + lives[i++].offset;
        for (int time = 0; time < times(); ++time)
            if (Segment& s = segment_at(time); s.scratch_floats > 0)
                s.scratch_offset = lives[i++].offset;
    }
    [[nodiscard]] int times() const { return program_.forward.count() + program_.backward.count(); }
    [[nodiscard]] Segment& segment_at(int time) {
        const int forward = program_.forward.count();
        return time < forward ? program_.forward[time] : program_.backward[time - forward];
    }
    [[nodiscard]] const Segment& segment_at(int time) const {
        return const_cast<Execution*>(this)->segment_at(time);
    }
    [[nodiscard]] std::int64_t scratch_of_lanes(const Segment& s) const {
        return lanes_.count() * s.scratch_floats;
    }
    /// For the whole batch, or for a chunk of each lane where one segment alone uses a buffer.
    GX_COLD void make_room(Buffer& b) {
        b.images = options_.batch;
        Segment& s = segment_at(b.first);
        if (b.first != b.last || !s.in_chunks()) return;
        b.images = lanes_.count() * s.most(most_lane_images(), tuning_.chunk_bytes);
        s.slots.resize(static_cast<std::size_t>(options_.batch));
        b.slots = s.slots.data();
    }
    [[nodiscard]] int most_lane_images() const {
        return share_begin(options_.batch, lanes_.count(), 1);
    }
    /// Sets where the images of a batch of `count` lie in buffers that single segments use.
    void place(int count) {
        if (placed_ == count) return;
        placed_ = count;
        for (auto* segments : {&program_.forward, &program_.backward})
            for (Segment* s : *segments)
                for (int lane = 0; lane < run_.lanes && !s->slots.empty(); ++lane)
                    each_chunk(*s, lane, [&](const Place& at) {
                        const int room = s->most(most_lane_images(), tuning_.chunk_bytes);
                        for (int i = 0; i < at.count; ++i)
                            s->slots[static_cast<std::size_t>(at.first + i)] = lane * room + i;
                    });
    }
    /// Plans every primitive for the chunk sizes of a batch of `count`.
    void plan(int count) {
        if (planned_[static_cast<std::size_t>(count)]) return;
        const OneOpenMpThread alone;
        for (auto* segments : {&program_.forward, &program_.backward})
            for (Segment* s : *segments) plan_segment(*s, count);
        planned_[static_cast<std::size_t>(count)] = true;
        ++counters_.plans;
    }
    /// A smaller batch than the arena was made for may need more scratch memory than there is room.
    GX_COLD void plan_segment(Segment& s, int count) {
        constexpr std::int64_t page_floats = 1024;
        lanes_.segment_floats = 0;
        for (int lane = 0; lane < run_.lanes; ++lane) plan_lane(s, count, lane);
        if (lanes_.segment_floats <= s.scratch_floats) return;
        s.scratch_floats = (lanes_.segment_floats + page_floats - 1) / page_floats * page_floats;
        s.scratch_offset = -1;
        if (arena_.size() > 0) lanes_.reserve_spare_scratch(s.scratch_floats);
    }
    GX_COLD void plan_lane(const Segment& s, int count, int lane) {
        const int images =
            share_begin(count, run_.lanes, lane + 1) - share_begin(count, run_.lanes, lane);
        const int chunks = s.chunks(images, tuning_.chunk_bytes);
        for (int c = 0; c < chunks && images > 0; ++c)
            for (Step* step : s.steps)
                step->prepare(share_begin(images, chunks, c + 1) - share_begin(images, chunks, c));
    }

    void accept(const Batch& batch, Mode mode) {
        GX_EXPECT(batch.count >= 0 && batch.count <= options_.batch,
                  "a batch of " + std::to_string(batch.count) + " images: expected 0 to " +
                      std::to_string(options_.batch) + ", which the device was built for");
        const auto count = static_cast<std::size_t>(batch.count);
        GX_EXPECT(batch.elements() == count * static_cast<std::size_t>(graph_.input.elements()),
                  "a batch holds count images of the graph's input shape");
        GX_EXPECT(batch.labels.size() == count, "a batch holds one label for each image");
        for (std::size_t n = 0; n < count; ++n)
            GX_EXPECT(batch.labels[n] >= 0 && batch.labels[n] < graph_.classes,
                      "label " + std::to_string(batch.labels[n]) + " of image " +
                          std::to_string(n) + ": expected 0 to " +
                          std::to_string(graph_.classes - 1));
        expect_second_labels(batch, graph_.classes);
        std::copy(batch.labels.begin(), batch.labels.end(), labels_.begin());
        std::fill(second_labels_.begin(), second_labels_.end(), SecondLabel{});
        std::copy(batch.second_labels.begin(), batch.second_labels.end(), second_labels_.begin());
        run_.batch = batch;
        run_.batch.labels = {labels_.data(), labels_.size()};
        run_.batch.second_labels = {second_labels_.data(), second_labels_.size()};
        run_.mode = mode;
        parts_.images->data = const_cast<float*>(batch.images.data());  // only read
        if (!batch.pixels.empty()) {
            normalised_.resize(static_cast<std::size_t>(options_.batch) *
                               static_cast<std::size_t>(graph_.input.elements()));
            normalise_into(batch, normalised_.data());
            parts_.images->data = normalised_.data();
        }
        non_finite_.reset();
    }
    void run_segment(const Segment& s) {
        if (s.steps.empty()) return;
        for (Step* step : s.steps) step->begin(run_);
        const int count = threads();
        run_team(count, [&](int thread) {
            for (int lane = thread; lane < run_.lanes; lane += count) run_lane(s, lane);
        });
    }
    void run_lane(const Segment& s, int lane) {
        give_scratch(s, lane);
        each_chunk(s, lane, [&](const Place& at) {
            for (Step* step : s.steps) step->run(run_, at);
        });
    }
    void give_scratch(const Segment& s, int lane) {
        lanes_.use_segment_scratch(
            lane, s.scratch_offset < 0 ? nullptr : arena_.data() + s.scratch_offset,
            s.scratch_floats);
    }
    /// Calls f(Place) for the chunks that a lane takes of the present batch.
    template <class F>
    void each_chunk(const Segment& s, int lane, F f) const {
        const int first = run_.lane_begin(lane), images = run_.lane_count(lane);
        const int chunks = s.chunks(images, tuning_.chunk_bytes);
        for (int c = 0; c < chunks; ++c) {
            const int begin = share_begin(images, chunks, c),
                      end = share_begin(images, chunks, c + 1);
            f(Place{lane, first + begin, end - begin, c == 0});
        }
    }
    [[nodiscard]] ForwardReport collect() const {
        ForwardReport report;
        for (std::size_t n = 0; n < static_cast<std::size_t>(run_.batch.count); ++n) {
            report.loss_sum += parts_.loss.losses[n];
            report.correct += parts_.loss.hits[n];
            report.top5 += parts_.loss.top5[n];
        }
        report.finite = std::isfinite(report.loss_sum);
        return report;
    }
    void note_allocations(std::int64_t before) {
        counters_.allocations_in_step +=
            blocks_allocated().load(std::memory_order_relaxed) - before;
    }
    /// Runs forward again and checks each chunk's outputs before the next one reuses the memory.
    GX_COLD void trace_non_finite() {
        const OneOpenMpThread alone;
        run_.keeps_statistics = false;
        const std::size_t none = graph_.ops.size();
        std::size_t found = none;
        for (int s = 0; s < program_.forward.count() && found == none; ++s) {
            const Segment& segment = program_.forward[s];
            for (Step* step : segment.steps) step->begin(run_);
            for (int lane = 0; lane < run_.lanes; ++lane) {
                give_scratch(segment, lane);
                each_chunk(segment, lane, [&](const Place& at) {
                    for (Step* step : segment.steps) step->run(run_, at);
                    found = std::min(found, first_bad_output(s, at));
                });
            }
        }
        run_.keeps_statistics = true;
        name(found == none ? graph_.ops.back()
                           : graph_.ops[static_cast<std::size_t>(parts_.blame[found])]);
    }
    /// The first operation of a segment whose output for a chunk is not finite; if none, how many
    /// operations there are.
    GX_COLD [[nodiscard]] std::size_t first_bad_output(int segment, const Place& at) const {
        std::size_t i = 0;
        for (bool found = false; i < graph_.ops.size(); ++i) {
            const auto tensor = static_cast<std::size_t>(graph_.ops[i].output);
            if (parts_.written_in[tensor] != segment) continue;
            const Buffer& b = *parts_.values[tensor];
            with_number(b.type, [&]<class E>(E) {
                const std::span<const E> all(b.image_of<E>(at.first),
                                             static_cast<std::size_t>(b.image_floats * at.count));
                found = std::any_of(all.begin(), all.end(),
                                    [](E v) { return !std::isfinite(widen(v)); });
            });
            if (found) break;
        }
        return i;
    }
    GX_COLD void name(const Op& op) {
        non_finite_ = std::string(to_string(op.kind)) + " '" + std::string(op.name.view()) + "'";
    }
    void expect_sizes(std::size_t mine, std::size_t canonical) const {
        GX_EXPECT(mine == parameters_->total(),
                  "the device's layout has as many elements as parameters()");
        GX_EXPECT(canonical == static_cast<std::size_t>(graph_.parameter_elements()),
                  "the canonical layout has as many elements as the graph's parameters");
    }

    Graph graph_;
    DeviceOptions options_;
    Tuning tuning_;
    Lanes lanes_;
    Shapes shapes_;
    TrivialVector<float> statistics_;
    std::thread::id owner_;
    std::optional<Parameters> parameters_{};
    Parts parts_{};
    Program program_{};
    Memory arena_{};
    TrivialVector<std::int32_t> labels_{};
    TrivialVector<SecondLabel> second_labels_{};  // of share 0 where an image has one
    TrivialVector<float> normalised_{};           // of 8-bit pixels
    TrivialVector<bool> planned_{};
    int placed_ = 0;  // images of the batch that the buffers are placed for
    Run run_{};
    Counters counters_{};
    std::optional<std::string> non_finite_{};
};

}  // namespace gx::onednn::detail
