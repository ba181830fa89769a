// expect: gx: each rank updates a part of the parameters, and this Optimizer does not say
// expect: Fix: add 'static constexpr bool elementwise = true'
#include <gx/model/lenet.hpp>
#include <gx/optimizer/concept.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/sharded/reducer.hpp>
#include <gx/trainer/trainer.hpp>

struct Lamb : gx::archetype::Optimizer {
    using gx::archetype::Optimizer::Optimizer;
};
gx::Trainer<gx::LeNet, gx::Sharded<gx::Ring<>>, gx::Poly<2>, Lamb> trainer;
