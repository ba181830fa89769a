// library: oneDNN's C interface with owners and errors, and a primitive with its arguments for each
// lane. The C++ interface of oneDNN takes a second to compile.
#pragma once

#include <oneapi/dnnl/dnnl.h>  // primitives

#include <cstdint>           // int64_t
#include <cstring>           // memset
#include <initializer_list>  // arguments
#include <string>            // errors
#include <utility>           // swap

#include <gx/core/cold.hpp>                 // GX_COLD
#include <gx/core/contract.hpp>             // GX_EXPECT
#include <gx/core/element.hpp>              // ElementType
#include <gx/core/error.hpp>                // Error
#include <gx/core/trivial_vector.hpp>       // a set of arguments for each lane
#include <gx/onednn/detail/memory.hpp>      // Memory
#include <gx/onednn/detail/owned_list.hpp>  // lanes

namespace gx::onednn::detail {

/// A call of oneDNN that failed.
class LibraryError : public Error {
public:
    using Error::Error;
};

/// Errors: LibraryError if `status` is not success, as in "could not create a stream".
inline void expect(dnnl_status_t status, const char* what) {
    if (status != dnnl_success) throw LibraryError(std::string("could not ") + what);
}

/// Owner of one of oneDNN's objects, or of none.
template <class Object, dnnl_status_t (*destroy)(Object)>
class Owned {
public:
    Owned() = default;
    explicit Owned(Object object) : object_(object) {}
    Owned(Owned&& o) noexcept { std::swap(object_, o.object_); }
    Owned& operator=(Owned&& o) noexcept {
        std::swap(object_, o.object_);
        return *this;
    }
    ~Owned() {
        if (object_ != nullptr) destroy(object_);
    }
    [[nodiscard]] Object get() const { return object_; }

private:
    Object object_ = nullptr;
};
using Engine = Owned<dnnl_engine_t, dnnl_engine_destroy>;
using Stream = Owned<dnnl_stream_t, dnnl_stream_destroy>;
using Attributes = Owned<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy>;
using Plan = Owned<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy>;
using Primitive = Owned<dnnl_primitive_t, dnnl_primitive_destroy>;
using Desc = dnnl_memory_desc_t;

[[nodiscard]] inline dnnl_engine_t engine() {
    static const Engine one([] {
        dnnl_engine_t made = nullptr;
        expect(dnnl_engine_create(&made, dnnl_cpu, 0), "create an engine");
        return made;
    }());
    return one.get();
}
[[nodiscard]] inline Stream new_stream() {
    dnnl_stream_t made = nullptr;
    expect(dnnl_stream_create(&made, engine(), dnnl_stream_default_flags), "create a stream");
    return Stream(made);
}

/// Attributes with a scratchpad of ours, so that executing a primitive allocates nothing.
GX_COLD [[nodiscard]] inline dnnl_primitive_attr_t user_scratch() {
    static const Attributes one([] {
        dnnl_primitive_attr_t made = nullptr;
        expect(dnnl_primitive_attr_create(&made), "create primitive attributes");
        expect(dnnl_primitive_attr_set_scratchpad_mode(made, dnnl_scratchpad_mode_user),
               "set the scratchpad mode");
        return made;
    }());
    return one.get();
}

/// Of an array; strides are those of `tag`, or a primitive's choice for `any`.
GX_COLD [[nodiscard]] inline Desc describe(std::initializer_list<dnnl_dim_t> dims,
                                           dnnl_format_tag_t tag, ElementType type) {
    Desc d{};
    const auto of = type == ElementType::bf16 ? dnnl_bf16 : dnnl_f32;
    expect(dnnl_memory_desc_init_by_tag(&d, static_cast<int>(dims.size()), dims.begin(), of, tag),
           "describe an array");
    return d;
}
[[nodiscard]] inline const Desc& desc_of(const Plan& plan, dnnl_query_t which) {
    return *dnnl_primitive_desc_query_md(plan.get(), which, 0);
}
/// The floats that hold an array, of whichever type its numbers are.
[[nodiscard]] inline std::int64_t floats_of(const Desc& d) {
    return static_cast<std::int64_t>((dnnl_memory_desc_get_size(&d) + 3) / sizeof(float));
}

/// State that the calls of one lane share: a stream and scratch memory.
struct Lane {
    Stream stream = new_stream();
    Memory scratch{};
    Memory partial{};  ///< the gradient of a chunk, before it is added to the lane's
};

/// The lanes of one device. A lane is a fixed share of the batch: sums are taken within a lane,
/// then over lanes in order, so the bits depend on the number of lanes and not on the threads.
struct Lanes {
    OwnedList<Lane> list{};
    Memory copy{};  ///< of the weights of one layer at a time
    explicit Lanes(int count) {
        while (list.count() < count) list.add();
    }
    [[nodiscard]] int count() const { return list.count(); }
    GX_COLD void reserve_scratch(std::size_t bytes) {
        const auto floats = static_cast<std::int64_t>((bytes + sizeof(float) - 1) / sizeof(float));
        for (Lane* lane : list)
            if (lane->scratch.size() < floats) lane->scratch = Memory(floats);
    }
    GX_COLD [[nodiscard]] std::int64_t floats() const {
        std::int64_t sum = 0;
        for (const Lane* lane : list) sum += lane->scratch.size() + lane->partial.size();
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
        const Desc& scratch = desc_of(plan, dnnl_query_scratchpad_md);
        scratch_bytes_ = dnnl_memory_desc_get_size(&scratch);
        lanes.reserve_scratch(scratch_bytes_);
        for (int lane = 0; lane < lanes.count(); ++lane) {
            for (const Argument& a : arguments) add(a.which, a.desc);
            add(DNNL_ARG_SCRATCHPAD, scratch);
        }
    }

    /// For a kernel that reads scratch memory before it writes it.
    void clear_scratch(int lane) const {
        if (scratch_bytes_ > 0) std::memset(lanes_->list[lane].scratch.data(), 0, scratch_bytes_);
    }
    /// Addresses in the order of the constructor's arguments.
    void operator()(int lane, std::initializer_list<const void*> addresses) {
        Lane& place = lanes_->list[lane];
        const dnnl_exec_arg_t* mine =
            arguments_.list.data() + static_cast<std::size_t>(lane) * count_;
        const dnnl_exec_arg_t* next = mine;
        for (const void* address : addresses) point(*next++, address);
        point(*next, place.scratch.data());
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
        expect(dnnl_memory_create(&made, &desc, engine(), DNNL_MEMORY_NONE),
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
