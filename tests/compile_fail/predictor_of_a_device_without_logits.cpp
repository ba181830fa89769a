// expect: gx: this Device gives no logits: no 'vector<float> logits() const'.
#include <gx/model/lenet.hpp>
#include <gx/trainer/predictor.hpp>

gx::Predictor<gx::LeNet, gx::archetype::Device>* predictor();
constexpr auto bytes = sizeof(gx::Predictor<gx::LeNet, gx::archetype::Device>);
