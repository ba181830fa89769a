// expect: gx: ContinueOnSurvivors needs a Loader that can begin within an epoch
#include <gx/model/lenet.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/survival/continue_on_survivors.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

struct Whole : archetype::Loader {
    Whole(const Dataset&, LoaderOptions);
};
Trainer<LeNet, Ring<fp16>, Poly<2>, ContinueOnSurvivors, Whole> trainer;
