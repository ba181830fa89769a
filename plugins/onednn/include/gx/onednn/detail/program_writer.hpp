// program_writer: writes a program: segments, and when buffers and gradients live.
#pragma once

#include <algorithm>         // max, min
#include <cstddef>           // size_t
#include <cstdint>           // int64_t
#include <initializer_list>  // buffers in use
#include <utility>           // forward

#include <gx/core/cold.hpp>                // GX_COLD
#include <gx/onednn/detail/gradients.hpp>  // LaneGradients, AddLanesStep
#include <gx/onednn/detail/program.hpp>    // Program, Segment, Buffer
#include <gx/onednn/detail/shapes.hpp>     // Parameters, at

namespace gx::onednn::detail {

/// Whether a step takes a lane's images chunk by chunk, or all of them at once.
enum class Size : unsigned char { chunk, whole };

/// Appends steps to a program, in the order they run: first forward, then, from begin_backward(),
/// backward. Steps share a segment until one needs another Size, or cut() is called.
///
///     add<S>(size, uses, ...)   a step S(...), and the buffers it touches, which live as long
///     add_in_every_lane<S>(...)  a step that every lane runs once, in a segment without chunks
///     summed_later(p)           each lane now has its share of parameter p's gradient, in the
///                               place returned; the shares are added at the end of the segment,
///                               in one of their own, and the lanes' memory is free again
///     final_now(p)              p's gradient is final after the newest segment
///     finish()                  adds what is left, and sets the watermark of each backward segment
class ProgramWriter {
public:
    ProgramWriter(const Parameters& parameters, int lanes, LaneGradients& gradients,
                  std::size_t parameter_count, Program& program)
        : parameters_(parameters),
          lanes_(lanes),
          gradients_(gradients),
          program_(program),
          finished_(parameter_count, -1) {}

    template <class S, class... A>
    void add(Size size, std::initializer_list<Buffer*> uses, A&&... arguments) {
        append(size, uses, program_.steps.add<S>(std::forward<A>(arguments)...));
    }
    /// A step that every lane runs once, after all that was added before.
    template <class S, class... A>
    void add_in_every_lane(A&&... arguments) {
        open_every_lane(program_.steps.add<S>(std::forward<A>(arguments)...));
    }
    /// One more buffer that the newest step touches.
    void uses(Buffer* b) { use(b); }
    /// As uses(), for a buffer that does not make the segment's chunks smaller.
    void keeps(Buffer* b) { extend(b); }
    [[nodiscard]] Buffer* buffer(std::int64_t image_floats, ElementType type = ElementType::fp32) {
        Buffer& b = program_.buffers.add();
        b.image_floats = image_floats, b.type = type;
        return &b;
    }
    void cut() { cut_ = true; }
    /// The newest segment, counted in its own direction.
    [[nodiscard]] int segment() { return now().count() - 1; }
    /// The newest segment, counted from the step's begin.
    [[nodiscard]] int time() { return (backward_ ? forward_segments_ : 0) + segment(); }

    void begin_backward() {
        forward_segments_ = program_.forward.count();
        backward_ = true;
        cut();
    }
    GX_COLD GradientPlace summed_later(int parameter) {
        const ParameterSlice& s = parameters_.slices()[at(parameter)];
        const GradientPlace place{s.offset, pending_floats_};
        pending_.push_back({parameter, place});
        pending_floats_ += (static_cast<std::int64_t>(s.count) + 15) / 16 * 16;  // cache lines
        most_pending_floats_ = std::max(most_pending_floats_, pending_floats_);
        return place;
    }
    void final_now(int parameter) { finished_[at(parameter)] = segment(); }
    GX_COLD void finish() {
        flush();
        gradients_.allocate(lanes_, most_pending_floats_);
        set_watermarks();
    }

private:
    using Segments = OwnedList<Segment>;

    /// All that add() does but construct.
    GX_COLD void append(Size size, std::initializer_list<Buffer*> uses, Step& step) {
        open(size);
        now().back().steps.push_back(&step);
        for (Buffer* b : uses) use(b);
    }
    [[nodiscard]] Segments& now() { return backward_ ? program_.backward : program_.forward; }
    GX_COLD void open(Size size) {
        const bool whole = size == Size::whole;
        if (now().count() > 0 && !cut_ && now().back().whole == whole) return;
        flush();
        now().add().whole = whole;
        cut_ = false;
    }
    GX_COLD void open_every_lane(Step& step) {
        flush();
        if (now().count() == 0 || !now().back().every_lane) now().add().every_lane = true;
        now().back().steps.push_back(&step);
        cut_ = true;
    }
    /// The lanes' weight gradients that are complete now are added in a segment of their own.
    GX_COLD void flush() {
        if (pending_.empty()) return;
        Segment& sum = now().add();
        sum.every_lane = true;
        for (const auto& [p, place] : pending_) {
            const ParameterSlice& s = parameters_.slices()[at(p)];
            if (lanes_ > 1)
                sum.steps.push_back(
                    &program_.steps.add<AddLanesStep>(gradients_, place, std::int64_t(s.count)));
            final_now(p);
        }
        pending_.clear(), pending_floats_ = 0;
        cut_ = true;
    }
    GX_COLD void use(Buffer* b) {
        if (b == nullptr) return;
        if (b->counted != time()) now().back().image_bytes += b->image_bytes();
        b->counted = time();
        extend(b);
    }
    GX_COLD void extend(Buffer* b) {
        if (b == nullptr) return;
        if (b->first < 0) b->first = time();
        b->last = time();
    }
    /// After which segment the gradients from an offset to the end are all final.
    GX_COLD void set_watermarks() {
        std::size_t offset = parameters_.total();
        const int segments = program_.backward.count();
        TrivialVector<std::size_t> final_from(at(segments), offset);
        int latest = 0;
        for (std::size_t p = finished_.size(); p-- > 0;) {
            latest = std::max(latest, finished_[p]);
            if (segments > 0) final_from[at(latest)] = parameters_.offset(static_cast<int>(p));
        }
        for (int s = 0; s < segments; ++s) {
            Segment& segment = program_.backward[s];
            segment.moves_watermark = final_from[at(s)] < offset;
            offset = std::min(offset, final_from[at(s)]);
            segment.watermark = offset;
        }
    }

    const Parameters& parameters_;
    int lanes_;
    LaneGradients& gradients_;
    Program& program_;
    TrivialVector<int> finished_;  // backward segment after which a parameter's gradient is final
    struct Pending {
        int parameter;
        GradientPlace place;
    };
    TrivialVector<Pending> pending_{};  // parameters whose lanes are not yet added
    std::int64_t pending_floats_ = 0, most_pending_floats_ = 0;  // of a lane
    int forward_segments_ = 0;
    bool backward_ = false, cut_ = false;
};

}  // namespace gx::onednn::detail
