// expect: gx: LocalSgd of a reducer that compresses
// expect: Fix: use one that returns the rounded mean, such as Ring.
#include <gx/local_sgd/reducer.hpp>
#include <gx/reducer/accuracy.hpp>
#include <gx/reducer/concept.hpp>

struct Compressing : gx::archetype::Reducer {
    static constexpr gx::Accuracy accuracy = gx::Accuracy::unbiased;
};
gx::LocalSgd<Compressing, 4> reducer;
