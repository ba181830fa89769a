// passing_copy: weights in another layout for one pass alone, in memory that all layers share.
#pragma once

#include <cstddef>           // byte
#include <cstdint>           // int64_t
#include <initializer_list>  // initializer_list

#include <gx/core/cold.hpp>                 // GX_COLD
#include <gx/onednn/detail/layout.hpp>      // element_offset
#include <gx/onednn/detail/library.hpp>     // Call, Lanes, Plan
#include <gx/onednn/detail/owned_list.hpp>  // OwnedList
#include <gx/onednn/detail/program.hpp>     // share_begin

namespace gx::onednn::detail {

/// A reorder of weights, to another layout or type, in one primitive.
GX_COLD [[nodiscard]] inline Plan plan_reorder(const Desc& from, const Desc& to) {
    dnnl_primitive_desc_t made = nullptr;
    expect(
        dnnl_reorder_primitive_desc_create(&made, &from, engine(), &to, engine(), user_scratch()),
        "create a primitive descriptor for a reorder");
    return Plan(made);
}

/// Weights (outputs, ...) that the lanes bring into Lanes::copy together, each a share of the
/// outputs, just before the pass that reads them.
class PassingCopy {
public:
    static constexpr int outputs_at_once = 64;  // a multiple of all blocks of oneDNN's layouts

    GX_COLD void plan(const Desc& from, const Desc& to, Lanes& lanes) {
        lanes_ = &lanes;
        Desc part_from{}, part_to{};
        const dnnl_dim_t outputs = from.dims[0];
        const dnnl_dim_t each = outputs % outputs_at_once == 0 ? outputs_at_once : outputs;
        parts_ = static_cast<int>(outputs / each);
        for (const auto& [part, all] : {Pair{&part_from, &from}, Pair{&part_to, &to}}) {
            dnnl_dims_t dims{}, first{};
            for (int d = 0; d < all->ndims; ++d) dims[d] = all->dims[d];
            dims[0] = each;
            expect(dnnl_memory_desc_init_submemory(part, all, dims, first),
                   "describe a part of an array");
        }
        from_step_ = element_offset(from, {each, 0, 0, 0, 0}) - element_offset(from, {});
        const std::int64_t to_step =
            element_offset(to, {each, 0, 0, 0, 0}) - element_offset(to, {});
        to_step_ = to_step * static_cast<std::int64_t>(dnnl_data_type_size(to.data_type));
        using Arguments = std::initializer_list<Call::Argument>;
        reorder_.add(plan_reorder(part_from, part_to), lanes,
                     Arguments{{DNNL_ARG_FROM, part_from}, {DNNL_ARG_TO, part_to}});
        lanes.reserve_copy(floats_of(to));
    }
    [[nodiscard]] bool planned() const { return reorder_.count() > 0; }
    [[nodiscard]] const void* data() const { return lanes_->copy.data(); }
    /// The share of `lane`.
    void make(const float* from, int lane) {
        auto* const to = reinterpret_cast<std::byte*>(lanes_->copy.data());
        const int lanes = lanes_->count(), end = share_begin(parts_, lanes, lane + 1);
        for (int p = share_begin(parts_, lanes, lane); p < end; ++p)
            reorder_[0](lane, {from + p * from_step_, to + p * to_step_});
    }

private:
    struct Pair {
        Desc* part;
        const Desc* all;
    };
    Lanes* lanes_ = nullptr;
    OwnedList<Call> reorder_{};  // one, of a part, or none
    int parts_ = 0;
    std::int64_t from_step_ = 0, to_step_ = 0;  // from part to part: numbers, bytes
};

}  // namespace gx::onednn::detail
