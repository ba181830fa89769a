// SourcePart: samples of another source, in one shape.
#pragma once

#include <cstdint>   // uint32_t
#include <iterator>  // ssize
#include <memory>    // unique_ptr

#include <gx/core/decl.hpp>      // GX_DECL
#include <gx/loader/source.hpp>  // SampleView

namespace gx {

/// The samples of a view, numbered by their place in it; models Source. Refers to both.
///
/// Errors: as SourceRef::open_at(); a view of another shape than that of a source without sizes
///         breaks the contract.
class SourcePart {
public:
    SourcePart(SourceRef of, const SampleView& view) : of_(of), view_(view) {}

    [[nodiscard]] SourceInfo info() const {
        SourceInfo info = of_.info();
        info.count = std::ssize(view_.samples);
        info.shape = view_.shape;
        return info;
    }
    [[nodiscard]] GX_DECL std::unique_ptr<SampleReader> open() const;

private:
    SourceRef of_;
    const SampleView& view_;
};
static_assert(explain_source<SourcePart>());

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/loader/impl/source_part.ipp>
#endif
