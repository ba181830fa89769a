// expect: gx: each rank updates a part of the parameters, and gx::WeightAverage keeps one average
#include <gx/model/lenet.hpp>
#include <gx/optimizer/weight_average.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/sharded/reducer.hpp>
#include <gx/trainer/trainer.hpp>

using namespace gx;

Trainer<LeNet, Sharded<Ring<>>, Poly<2>, WeightAverage<Sgd>> trainer;
