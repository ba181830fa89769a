// passing_copy: weights in another layout for one pass alone, in memory that all layers share.
#pragma once

#include <cstddef>           // byte
#include <cstdint>           // int64_t
#include <initializer_list>  // initializer_list

#include <gx/core/cold.hpp>                              // GX_COLD
#include <gx/onednn/detail/library/blocked_strides.hpp>  // BlockedStrides, element_offset
#include <gx/onednn/detail/library/desc.hpp>             // Desc, plan_reorder
#include <gx/onednn/detail/library.hpp>                  // Call, Lanes
#include <gx/onednn/detail/owned_list.hpp>               // OwnedList
#include <gx/onednn/detail/program.hpp>                  // share_begin

namespace gx::onednn::detail {

/// Weights (outputs, ...) that the lanes bring into Lanes::copy together. Each brings a share of
/// the outputs, just before the pass that reads them.
class PassingCopy {
public:
    static constexpr int outputs_at_once = 64;  // a multiple of all blocks of oneDNN's layouts

    GX_COLD void plan(const Desc& from, const Desc& to, Lanes& lanes) {
        lanes_ = &lanes;
        const std::int64_t outputs = from.strides().dims[0];
        const std::int64_t each = outputs % outputs_at_once == 0 ? outputs_at_once : outputs;
        parts_ = static_cast<int>(outputs / each);
        const Desc part_from = from.first(each), part_to = to.first(each);
        const auto step = [each](const BlockedStrides& b) {
            return element_offset(b, {each, 0, 0, 0, 0}) - element_offset(b, {});
        };
        from_step_ = step(from.strides());
        to_step_ = step(to.strides()) * (to.strides().bf16 ? 2 : 4);
        using Arguments = std::initializer_list<Call::Argument>;
        reorder_.add(plan_reorder(part_from, part_to), lanes,
                     Arguments{{DNNL_ARG_FROM, part_from}, {DNNL_ARG_TO, part_to}});
        lanes.reserve_copy(to.floats());
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
    Lanes* lanes_ = nullptr;
    OwnedList<Call> reorder_{};  // one, of a part, or none
    int parts_ = 0;
    std::int64_t from_step_ = 0, to_step_ = 0;  // from part to part: numbers, bytes
};

}  // namespace gx::onednn::detail
