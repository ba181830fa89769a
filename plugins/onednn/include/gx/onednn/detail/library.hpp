// library: a oneDNN primitive with arguments for each lane, and a lane's shared state.
#pragma once

#include <oneapi/dnnl/dnnl.h>  // primitives

#include <algorithm>         // max
#include <cstdint>           // int64_t
#include <cstring>           // memset
#include <initializer_list>  // arguments

#include <gx/core/cold.hpp>                      // GX_COLD
#include <gx/core/contract.hpp>                  // GX_EXPECT
#include <gx/core/trivial_vector.hpp>            // a set of arguments for each lane
#include <gx/onednn/detail/library/desc.hpp>     // Desc
#include <gx/onednn/detail/library/handles.hpp>  // Plan, Primitive, Stream
#include <gx/onednn/detail/memory.hpp>           // Memory
#include <gx/onednn/detail/owned_list.hpp>       // lanes

namespace gx::onednn::detail {

/// State that the calls of one lane share: a stream and scratch memory.
struct Lane {
    /// A larger request lies where the arena has room while the segment runs. Others share memory,
    /// which is in the core's cache when the next kernel uses it.
    static constexpr std::size_t most_own_scratch_bytes = std::size_t{1} << 20;

    Stream stream = new_stream();
    Memory own_scratch{};
    float* segment_scratch = nullptr;  ///< of the segment that runs
    Memory partial{};  ///< the gradient of a chunk, before it is added to the lane's

    /// For a kernel that has reserved so many bytes.
    [[nodiscard]] float* scratch(std::size_t bytes) const {
        return bytes > most_own_scratch_bytes ? segment_scratch : own_scratch.data();
    }
};

/// The lanes of one device. A lane is a fixed share of the batch: sums are taken within a lane,
/// then over lanes in order, so the bits depend on the number of lanes and not on the threads.
struct Lanes {
    OwnedList<Lane> list{};
    Memory copy{};                    ///< of the weights of one layer at a time
    std::int64_t segment_floats = 0;  ///< of a lane, that large requests need since it was set to 0
    Memory spare_scratch{};           ///< of all lanes, for segments that have none in the arena
    explicit Lanes(int count) {
        while (list.count() < count) list.add();
    }
    [[nodiscard]] int count() const { return list.count(); }
    /// For a kernel of the segment that is planned now.
    GX_COLD void reserve_scratch(std::size_t bytes) {
        const auto floats = static_cast<std::int64_t>((bytes + sizeof(float) - 1) / sizeof(float));
        if (bytes > Lane::most_own_scratch_bytes) {
            segment_floats = std::max(segment_floats, floats);
            return;
        }
        for (Lane* lane : list)
            if (lane->own_scratch.size() < floats) lane->own_scratch = Memory(floats);
    }
    /// For the large requests of a segment, so many floats of a lane.
    GX_COLD void reserve_spare_scratch(std::int64_t floats_of_lane) {
        const std::int64_t all = count() * floats_of_lane;
        if (spare_scratch.size() < all) spare_scratch = Memory(all);
    }
    /// Before a lane runs a segment, whose scratch memory begins at `all`; null: the spare one.
    void use_segment_scratch(int lane, float* all, std::int64_t floats_of_lane) {
        float* const begin = all != nullptr ? all : spare_scratch.data();
        list[lane].segment_scratch = begin + lane * floats_of_lane;
    }
    GX_COLD [[nodiscard]] std::int64_t floats() const {
        std::int64_t sum = spare_scratch.size();
        for (const Lane* lane : list) sum += lane->own_scratch.size() + lane->partial.size();
        return sum;
    }
    GX_COLD void reserve_copy(std::int64_t floats) {
        if (copy.size() < floats) copy = Memory(floats);
    }
    GX_COLD void reserve_partial(std::int64_t floats) {
        for (Lane* lane : list)
            if (lane->partial.size() < floats) lane->partial = Memory(floats);
    }
};

/// A primitive and, for each lane, its arguments: only addresses change from call to call.
class Call {
public:
    struct Argument {
        int which = 0;
        const Desc& desc;
    };
    GX_COLD Call(const Plan& plan, Lanes& lanes, std::initializer_list<Argument> arguments)
        : lanes_(&lanes), count_(arguments.size() + 1) {
        dnnl_primitive_t made = nullptr;
        expect(dnnl_primitive_create(&made, plan.get()), "create a primitive");
        primitive_ = Primitive(made);
        const Desc scratch = desc_of(plan, dnnl_query_scratchpad_md);
        scratch_bytes_ = scratch.bytes();
        lanes.reserve_scratch(scratch_bytes_);
        for (int lane = 0; lane < lanes.count(); ++lane) {
            for (const Argument& a : arguments) add(a.which, a.desc);
            add(DNNL_ARG_SCRATCHPAD, scratch);
        }
    }

    /// For a kernel that reads scratch memory before it writes it.
    void clear_scratch(int lane) const {
        if (scratch_bytes_ == 0) return;
        std::memset(lanes_->list[lane].scratch(scratch_bytes_), 0, scratch_bytes_);
    }
    /// Addresses in the order of the constructor's arguments.
    void operator()(int lane, std::initializer_list<const void*> addresses) {
        Lane& place = lanes_->list[lane];
        const dnnl_exec_arg_t* mine =
            arguments_.list.data() + static_cast<std::size_t>(lane) * count_;
        const dnnl_exec_arg_t* next = mine;
        for (const void* address : addresses) point(*next++, address);
        point(*next, place.scratch(scratch_bytes_));
        const auto status = dnnl_primitive_execute(primitive_.get(), place.stream.get(),
                                                   static_cast<int>(count_), mine);
        GX_EXPECT(status == dnnl_success, "oneDNN could not run a primitive that it had planned");
    }

private:
    struct Arguments {
        TrivialVector<dnnl_exec_arg_t> list{};
        Arguments() = default;
        Arguments(const Arguments&) = delete;
        Arguments& operator=(const Arguments&) = delete;
        GX_COLD ~Arguments() {
            for (const dnnl_exec_arg_t& a : list) dnnl_memory_destroy(a.memory);
        }
    };
    GX_COLD void add(int which, const Desc& desc) {
        dnnl_memory_t made = nullptr;
        expect(dnnl_memory_create(&made, desc.get(), engine(), DNNL_MEMORY_NONE),
               "create a memory object");
        arguments_.list.push_back({which, made});
    }
    static void point(const dnnl_exec_arg_t& argument, const void* address) {
        dnnl_memory_set_data_handle(argument.memory, const_cast<void*>(address));
    }
    Lanes* lanes_;
    std::size_t count_;              // arguments of a lane
    std::size_t scratch_bytes_ = 0;  // of a call
    Primitive primitive_{};
    Arguments arguments_{};  // (lanes, count)
};

}  // namespace gx::onednn::detail
