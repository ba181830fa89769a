// Reading a part of a source.
#pragma once

#include <vector>  // indices

#include <gx/core/contract.hpp>       // GX_EXPECT
#include <gx/loader/source_part.hpp>  // the declarations

namespace gx {

namespace detail::source {

class PartReader final : public SampleReader {
public:
    PartReader(std::unique_ptr<SampleReader> reader, const std::vector<std::uint32_t>& samples)
        : reader_(std::move(reader)), samples_(samples) {}

    void read(std::span<const std::uint32_t> indices, std::span<Sample> out) override {
        of_source_.clear();
        for (const std::uint32_t i : indices) of_source_.push_back(samples_[i]);
        reader_->read(of_source_, out);
    }
    void begin_epoch(int epoch) override { reader_->begin_epoch(epoch); }

private:
    std::unique_ptr<SampleReader> reader_;
    const std::vector<std::uint32_t>& samples_;
    std::vector<std::uint32_t> of_source_{};
};

}  // namespace detail::source

GX_DECL std::unique_ptr<SampleReader> SourcePart::open() const {
    GX_EXPECT(of_.has_sizes() || view_.shape == of_.info().shape,
              "a source without sizes has views of its own shape");
    return std::make_unique<detail::source::PartReader>(
        of_.has_sizes() ? of_.open_at(view_.shape) : of_.open(), view_.samples);
}

}  // namespace gx
