// library: oneDNN's engine, and a primitive with its arguments for each lane.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>  // primitives

#include <algorithm>         // max
#include <array>             // arguments
#include <initializer_list>  // arguments
#include <vector>            // a set of arguments for each lane

#include <gx/core/cold.hpp>             // GX_COLD
#include <gx/core/contract.hpp>         // GX_EXPECT
#include <gx/onednn/detail/memory.hpp>  // Memory

namespace gx::onednn::detail {

[[nodiscard]] inline dnnl::engine& engine() {
    static dnnl::engine e(dnnl::engine::kind::cpu, 0);
    return e;
}

/// State that the calls of one lane share: a stream and scratch memory.
struct Lane {
    dnnl::stream stream{engine()};
    Memory scratch{};
    Memory partial{};  ///< the gradient of a chunk, before it is added to the lane's
};

/// The lanes of one device. A lane is a fixed share of the batch: sums are taken within a lane,
/// then over lanes in order, so the bits depend on the number of lanes and not on the threads.
struct Lanes {
    std::vector<Lane> list;
    explicit Lanes(int count) : list(static_cast<std::size_t>(count)) {}
    [[nodiscard]] int count() const { return static_cast<int>(list.size()); }
    GX_COLD void reserve_scratch(std::size_t bytes) {
        const auto floats = static_cast<std::int64_t>((bytes + sizeof(float) - 1) / sizeof(float));
        for (Lane& lane : list)
            if (lane.scratch.size() < floats) lane.scratch = Memory(floats);
    }
    GX_COLD void reserve_partial(std::int64_t floats) {
        for (Lane& lane : list)
            if (lane.partial.size() < floats) lane.partial = Memory(floats);
    }
};

/// Attributes with a scratchpad of ours, so that executing a primitive allocates nothing.
GX_COLD [[nodiscard]] inline dnnl::primitive_attr user_scratch() {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return attr;
}

/// A primitive and, for each lane, its arguments: only addresses change from call to call.
class Call {
public:
    struct Argument {
        int which = 0;
        dnnl::memory::desc desc{};
    };
    GX_COLD Call(const dnnl::primitive& primitive, const dnnl::memory::desc& scratch, Lanes& lanes,
                 std::initializer_list<Argument> arguments)
        : primitive_(primitive),
          lanes_(&lanes),
          sets_(lanes.list.size()),
          count_(arguments.size()) {
        lanes.reserve_scratch(scratch.get_size());
        for (Set& set : sets_) {
            std::size_t i = 0;
            for (const Argument& a : arguments) set.add(i++, a);
            set.add(i, {DNNL_ARG_SCRATCHPAD, scratch});
        }
    }
    /// Addresses in the order of the constructor's arguments.
    void operator()(int lane, std::initializer_list<const float*> addresses) {
        Set& set = sets_[static_cast<std::size_t>(lane)];
        Lane& place = lanes_->list[static_cast<std::size_t>(lane)];
        std::size_t i = 0;
        for (const float* address : addresses) set.point(i++, address);
        set.point(i, place.scratch.data());
        const auto status =
            dnnl_primitive_execute(primitive_.get(), place.stream.get(),
                                   static_cast<int>(count_) + 1, set.arguments.data());
        GX_EXPECT(status == dnnl_success, "oneDNN could not run a primitive that it had planned");
    }

private:
    struct Set {
        std::array<dnnl::memory, 6> memories{};
        std::array<dnnl_exec_arg_t, 6> arguments{};
        void add(std::size_t i, const Argument& a) {
            memories[i] = dnnl::memory(a.desc, engine(), DNNL_MEMORY_NONE);
            arguments[i] = {a.which, memories[i].get()};
        }
        void point(std::size_t i, const float* address) {
            dnnl_memory_set_data_handle(memories[i].get(), const_cast<float*>(address));
        }
    };
    dnnl::primitive primitive_;
    Lanes* lanes_;
    std::vector<Set> sets_;
    std::size_t count_;
};

}  // namespace gx::onednn::detail
