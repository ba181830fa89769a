#include <gx/cuda/update_tables.hpp>

#include <algorithm>  // equal, transform

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/cuda/queue.hpp>     // Queue

namespace gx::cuda {

namespace {

template <class T>
Buffer<T> copied(Queue& queue, const std::vector<T>& values, const Label& name) {
    Buffer<T> b(&queue.context().memory(), static_cast<std::int64_t>(values.size()), name);
    queue.copy_in(std::span<const T>(values), b.template view<GpuMemory>(), {name});
    return b;
}

}  // namespace

bool UpdateTables::holds(std::span<const ParameterSlice> slices) const {
    return std::ranges::equal(slices, slices_, [](const auto& a, const auto& b) {
        return a.offset == b.offset && a.count == b.count && a.parameter == b.parameter;
    });
}

void UpdateTables::cut(Queue& queue, std::span<const ParameterSlice> slices,
                       std::size_t parameters) {
    for (const ParameterSlice& s : slices)
        GX_EXPECT(s.parameter >= 0 && static_cast<std::size_t>(s.parameter) < parameters,
                  "a slice names a parameter of the reserved graph");
    // It used what is replaced. Where a rank is lost it has come to its end too, and the next wait
    // that needs that rank says so.
    (void)queue.wait(queue.record());
    slices_.assign(slices.begin(), slices.end());
    pieces_ = copied(queue, update_pieces(slices), "pieces of an update");
    if (step_.size() == 0) step_ = {&queue.context().memory(), 1, "step of an update"};
}

void UpdateTables::prepare(Queue& queue, std::span<const ParameterSlice> slices,
                           std::span<const float> decays) {
    if (holds(slices) && std::ranges::equal(decays, of_decays_)) return;
    cut(queue, slices, decays.size());
    of_adapts_.clear();
    of_decays_.assign(decays.begin(), decays.end());
    decays_ = copied(queue, of_decays_, "weight decays");
}

void UpdateTables::prepare_norms(Queue& queue, std::span<const ParameterSlice> slices,
                                 std::span<const char> adapts) {
    if (holds(slices) && std::ranges::equal(adapts, of_adapts_)) return;
    cut(queue, slices, adapts.size());
    of_decays_.clear();
    of_adapts_.assign(adapts.begin(), adapts.end());
    std::vector<Flag> flags(adapts.size());
    std::ranges::transform(adapts, flags.begin(), [](char a) { return Flag{a != 0}; });
    adapts_ = copied(queue, flags, "parameters with a trust ratio");
    const auto parameters = static_cast<std::int64_t>(adapts.size());
    MemoryResource* const memory = &queue.context().memory();
    words_ = {memory, 2 * parameters * norm_words, "squared norms"};
    rates_ = {memory, parameters, "rates"};
    decays_ = {memory, parameters, "weight decays"};
}

void UpdateTables::prepare_sums(Queue& queue, std::int64_t count) {
    if (std::ssize(sums_) >= count * norm_words) return;
    if (sums_.size() > 0) (void)queue.wait(queue.record());  // as in cut()
    sums_ = {&queue.context().memory(), count * norm_words, "squared norms of gradients"};
}

}  // namespace gx::cuda
