// The right spelling of the reducers that the neighbours spell wrongly: they must compile.
#include <gx/local_sgd/reducer.hpp>
#include <gx/model/lenet.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/trainer/trainer.hpp>

static_assert(gx::OwnsUpdate<gx::LocalSgd<gx::Bucketed<gx::Ring<>, 4 << 20>, 1>>);
gx::Trainer<gx::LeNet, gx::LocalSgd<gx::Ring<gx::fp16>, 4>, gx::Poly<2>> trainer;
