// expect: gx: not an Optimizer: no 'void update(const gx::UpdateArgs&)'
#include <gx/optimizer/concept.hpp>

struct Loose {
    struct Options {};
    explicit Loose(Options);
    void reserve(std::size_t, std::span<const gx::ParameterSlice>, const gx::Graph&);
    void update(std::span<float> parameters, std::span<const float> gradients, float rate,
                float unscale);
};
static_assert(gx::explain_optimizer<Loose>());
