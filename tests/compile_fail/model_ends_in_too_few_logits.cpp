// expect: gx: not a Model: the network must end in one logit for each class
#include <gx/model/concept.hpp>

struct Halved : gx::archetype::Model {
    static constexpr int describe(gx::GraphBuilder& b, int x) {
        return b.linear(b.flatten(x, "flatten"), b.classes() - 1, true, "fc");
    }
};
const auto graph = gx::graph<Halved>();
