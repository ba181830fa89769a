// expect: gx: not an Optimizer: it has a 'state()'
#include <gx/optimizer/concept.hpp>

struct Keeper {
    struct Options {};
    explicit Keeper(Options);
    void reserve(std::size_t, std::span<const gx::ParameterSlice>, const gx::Graph&);
    void update(const gx::UpdateArgs&);
    std::span<float> state();
};
static_assert(gx::explain_optimizer<Keeper>());
