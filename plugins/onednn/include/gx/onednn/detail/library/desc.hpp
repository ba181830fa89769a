// desc: how an array lies in memory, and plans of primitives over such arrays.
// What differs between versions 2 and 3 of oneDNN is in this header.
#pragma once

#include <oneapi/dnnl/dnnl.h>          // descriptors, primitives
#include <oneapi/dnnl/dnnl_version.h>  // DNNL_VERSION_MAJOR

#include <algorithm>         // copy_n
#include <cstddef>           // size_t
#include <cstdint>           // int64_t
#include <initializer_list>  // dimensions
#include <utility>           // move

#include <gx/core/cold.hpp>                              // GX_COLD
#include <gx/core/element.hpp>                           // ElementType
#include <gx/onednn/detail/library/handles.hpp>          // Plan, expect
#include <gx/onednn/detail/library/blocked_strides.hpp>  // BlockedStrides

static_assert(DNNL_VERSION_MAJOR == 2 || DNNL_VERSION_MAJOR == 3,
              "gx::onednn needs oneDNN 2.6 or newer, or 3. Fix: install Debian's libdnnl-dev, or "
              "configure with -D dnnl_DIR=FOLDER of such a version's dnnl-config.cmake");

namespace gx::onednn::detail {

/// A pass of a convolution.
enum class Pass : unsigned char { forward, data, weights };

[[nodiscard]] inline dnnl_data_type_t type_of(ElementType type) {
    return type == ElementType::bf16 ? dnnl_bf16 : dnnl_f32;
}

#if DNNL_VERSION_MAJOR == 2
using DescHandle = const dnnl_memory_desc_t*;

/// A value, as the C interface has it.
class DescValue {
public:
    DescValue() = default;
    GX_COLD explicit DescValue(DescHandle d) {
        if (d != nullptr) value_ = *d;
    }
    GX_COLD DescValue(int rank, const dnnl_dims_t dims, dnnl_data_type_t type,
                      dnnl_format_tag_t tag) {
        expect(dnnl_memory_desc_init_by_tag(&value_, rank, dims, type, tag), "describe an array");
    }
    GX_COLD DescValue(const DescValue& whole, const dnnl_dims_t dims, const dnnl_dims_t first) {
        expect(dnnl_memory_desc_init_submemory(&value_, &whole.value_, dims, first),
               "describe a part of an array");
    }
    [[nodiscard]] DescHandle get() const { return value_.ndims > 0 ? &value_ : nullptr; }
    [[nodiscard]] BlockedStrides strides() const {
        if (value_.format_kind != dnnl_blocked || value_.extra.flags != 0) return {};
        const dnnl_blocking_desc_t& from = value_.format_desc.blocking;
        BlockedStrides b;
        b.rank = value_.ndims, b.inner_count = from.inner_nblks, b.offset = value_.offset0;
        b.bf16 = value_.data_type == dnnl_bf16;
        std::copy_n(value_.dims, b.rank, b.dims);
        std::copy_n(from.strides, b.rank, b.strides);
        std::copy_n(from.inner_blks, b.inner_count, b.inner_sizes);
        std::copy_n(from.inner_idxs, b.inner_count, b.inner_dims);
        return b;
    }

private:
    dnnl_memory_desc_t value_{};
};
#else
using DescHandle = const_dnnl_memory_desc_t;

/// An object of the C interface, and copies of it.
class DescValue {
public:
    DescValue() = default;
    GX_COLD explicit DescValue(DescHandle d) {
        if (d == nullptr) return;
        dnnl_memory_desc_t made = nullptr;
        expect(dnnl_memory_desc_clone(&made, d), "copy the description of an array");
        object_ = Object(made);
    }
    GX_COLD DescValue(int rank, const dnnl_dims_t dims, dnnl_data_type_t type,
                      dnnl_format_tag_t tag) {
        dnnl_memory_desc_t made = nullptr;
        expect(dnnl_memory_desc_create_with_tag(&made, rank, dims, type, tag), "describe an array");
        object_ = Object(made);
    }
    GX_COLD DescValue(const DescValue& whole, const dnnl_dims_t dims, const dnnl_dims_t first) {
        dnnl_memory_desc_t made = nullptr;
        expect(dnnl_memory_desc_create_submemory(&made, whole.get(), dims, first),
               "describe a part of an array");
        object_ = Object(made);
    }
    GX_COLD DescValue(const DescValue& o) : DescValue(o.get()) {}
    GX_COLD DescValue& operator=(const DescValue& o) { return *this = DescValue(o); }
    DescValue(DescValue&&) noexcept = default;
    DescValue& operator=(DescValue&&) noexcept = default;
    ~DescValue() = default;
    [[nodiscard]] DescHandle get() const { return object_.get(); }
    [[nodiscard]] GX_COLD BlockedStrides strides() const {
        BlockedStrides b;
        if (get() == nullptr || ask<dnnl_format_kind_t>(dnnl_query_format_kind) != dnnl_blocked)
            return b;
        b.rank = ask<int>(dnnl_query_ndims_s32);
        b.inner_count = ask<int>(dnnl_query_inner_nblks_s32);
        b.offset = ask<dnnl_dim_t>(dnnl_query_submemory_offset_s64);
        b.bf16 = ask<dnnl_data_type_t>(dnnl_query_data_type) == dnnl_bf16;
        std::copy_n(*ask<const dnnl_dims_t*>(dnnl_query_dims), b.rank, b.dims);
        std::copy_n(*ask<const dnnl_dims_t*>(dnnl_query_strides), b.rank, b.strides);
        if (b.inner_count == 0) return b;
        std::copy_n(*ask<const dnnl_dims_t*>(dnnl_query_inner_blks), b.inner_count, b.inner_sizes);
        std::copy_n(*ask<const dnnl_dims_t*>(dnnl_query_inner_idxs), b.inner_count, b.inner_dims);
        return b;
    }

private:
    using Object = Owned<dnnl_memory_desc_t, dnnl_memory_desc_destroy>;
    template <class X>
    [[nodiscard]] X ask(dnnl_query_t what) const {
        X x{};
        expect(dnnl_memory_desc_query(get(), what, &x), "read the description of an array");
        return x;
    }
    Object object_{};
};
#endif

/// Dimensions, type and layout of an array, or none; a layout may be a primitive's to choose.
class Desc {
public:
    Desc() = default;
    /// A copy of one of oneDNN's; none for null.
    GX_COLD explicit Desc(DescHandle d) : Desc(DescValue(d)) {}
    /// Strides are those of `tag`, or a primitive's choice for `any`.
    GX_COLD Desc(std::initializer_list<dnnl_dim_t> dims, dnnl_format_tag_t tag, ElementType type)
        : Desc(DescValue(static_cast<int>(dims.size()), dims.begin(), type_of(type), tag)) {}

    /// Null: none.
    [[nodiscard]] DescHandle get() const { return value_.get(); }
    /// Rank 0 for one without strides, as `any` or a Winograd kernel's weights. In version 2 also
    /// for one with values beside the array, which inference has.
    [[nodiscard]] const BlockedStrides& strides() const { return strides_; }
    [[nodiscard]] std::size_t bytes() const { return dnnl_memory_desc_get_size(get()); }
    /// The floats that hold it, of whichever type its numbers are.
    [[nodiscard]] std::int64_t floats() const {
        return static_cast<std::int64_t>((bytes() + 3) / sizeof(float));
    }
    /// The first `count` along dimension 0, with the same strides.
    GX_COLD [[nodiscard]] Desc first(std::int64_t count) const {
        dnnl_dims_t dims{}, from{};
        std::copy_n(strides_.dims, strides_.rank, dims);
        dims[0] = count;
        return Desc(DescValue(value_, dims, from));
    }
    [[nodiscard]] friend bool operator==(const Desc& a, const Desc& b) {
        return dnnl_memory_desc_equal(a.get(), b.get()) != 0;
    }

private:
    GX_COLD explicit Desc(DescValue value) : value_(std::move(value)), strides_(value_.strides()) {}
    DescValue value_{};
    BlockedStrides strides_{};
};

/// None where the primitive has no such array.
GX_COLD [[nodiscard]] inline Desc desc_of(const Plan& plan, dnnl_query_t which) {
    return Desc(dnnl_primitive_desc_query_md(plan.get(), which, 0));
}

/// The arrays of a convolution, or their gradients; `bias`: null for none.
struct ConvolutionArrays {
    const Desc &in, &weights;
    const Desc* bias;
    const Desc& out;
};
struct ConvolutionWindow {
    dnnl_dims_t strides, padding;
};

/// Of one pass; `hint`: the forward pass's, for the others. None if oneDNN has no kernel.
GX_COLD [[nodiscard]] inline Plan plan_convolution(Pass pass, dnnl_alg_kind_t algorithm,
                                                   const ConvolutionArrays& of,
                                                   const ConvolutionWindow& window,
                                                   const Plan& hint) {
    const DescHandle bias = of.bias != nullptr ? of.bias->get() : nullptr;
    const auto &strides = window.strides, &padding = window.padding;
    dnnl_primitive_desc_t made = nullptr;
#if DNNL_VERSION_MAJOR == 2
    dnnl_convolution_desc_t kernel;
    dnnl_status_t status =
        pass == Pass::forward ? dnnl_convolution_forward_desc_init(
                                    &kernel, dnnl_forward_training, algorithm, of.in.get(),
                                    of.weights.get(), bias, of.out.get(), strides, padding, padding)
        : pass == Pass::data
            ? dnnl_convolution_backward_data_desc_init(&kernel, algorithm, of.in.get(),
                                                       of.weights.get(), of.out.get(), strides,
                                                       padding, padding)
            : dnnl_convolution_backward_weights_desc_init(&kernel, algorithm, of.in.get(),
                                                          of.weights.get(), bias, of.out.get(),
                                                          strides, padding, padding);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(&made, &kernel, user_scratch(), engine(), hint.get());
#else
    const dnnl_dims_t dilates{};
    const dnnl_status_t status =
        pass == Pass::forward
            ? dnnl_convolution_forward_primitive_desc_create(
                  &made, engine(), dnnl_forward_training, algorithm, of.in.get(), of.weights.get(),
                  bias, of.out.get(), strides, dilates, padding, padding, user_scratch())
        : pass == Pass::data
            ? dnnl_convolution_backward_data_primitive_desc_create(
                  &made, engine(), algorithm, of.in.get(), of.weights.get(), of.out.get(), strides,
                  dilates, padding, padding, hint.get(), user_scratch())
            : dnnl_convolution_backward_weights_primitive_desc_create(
                  &made, engine(), algorithm, of.in.get(), of.weights.get(), bias, of.out.get(),
                  strides, dilates, padding, padding, hint.get(), user_scratch());
#endif
    return status == dnnl_success ? Plan(made) : Plan();
}

/// A reorder, to another layout or type, in one primitive.
GX_COLD [[nodiscard]] inline Plan plan_reorder(const Desc& from, const Desc& to) {
    dnnl_primitive_desc_t made = nullptr;
    expect(dnnl_reorder_primitive_desc_create(&made, from.get(), engine(), to.get(), engine(),
                                              user_scratch()),
           "create a primitive descriptor for a reorder");
    return Plan(made);
}

}  // namespace gx::onednn::detail
