// What ./gx gpu measured of an H100 (ResNet-50, fp16, 256 images), cut to what the reader needs.
#pragma once

#include <string>  // a text with a part replaced

namespace testing_support {

inline const std::string measured_h100 = R"json({"command": "gpu", "gpu": "NVIDIA H100 80GB HBM3",
 "training": {"cases": [
   {"composition": "Trainer<ResNet50, MultiRing<4, fp16>, Warmup<Poly<2>>, Compute<fp16>>",
    "compute": "fp16", "gpus": 1, "batch": 256, "images_per_second": 6650.0},
   {"composition": "Trainer<ResNet50, MultiRing<4, fp32>, Warmup<Poly<2>>>",
    "compute": "fp32", "gpus": 1, "batch": 128, "images_per_second": 1002.0, "tf32": false}]},
 "profile": {
  "composition": "Trainer<ResNet50, MultiRing<4, fp16>, Warmup<Poly<2>>, Compute<fp16>>",
  "gpus": 1, "batch": 256, "step": 3, "kernels_of_step": 556, "milliseconds": 37.991776,
  "kinds": [
    {"kind": "products, forward",
     "count": 54, "milliseconds": 5.684736, "dram_gigabytes": 9.722702, "gb_per_second": 1710.3},
    {"kind": "products, input gradient",
     "count": 53, "milliseconds": 5.043872, "dram_gigabytes": 10.066448, "gb_per_second": 1995.8},
    {"kind": "products, weight gradient",
     "count": 109, "milliseconds": 5.603776, "dram_gigabytes": 11.113265, "gb_per_second": 1983.2},
    {"kind": "batch norm, forward",
     "count": 103, "milliseconds": 5.595328, "dram_gigabytes": 12.416951, "gb_per_second": 2219.2},
    {"kind": "batch norm, backward",
     "count": 159, "milliseconds": 14.105696, "dram_gigabytes": 33.468241, "gb_per_second": 2372.7},
    {"kind": "pools",
     "count": 4, "milliseconds": 0.832576, "dram_gigabytes": 1.80647, "gb_per_second": 2169.7},
    {"kind": "input",
     "count": 1, "milliseconds": 0.148992, "dram_gigabytes": 0.118073, "gb_per_second": 792.5},
    {"kind": "loss",
     "count": 5, "milliseconds": 0.0232, "dram_gigabytes": 0.001111, "gb_per_second": 47.9},
    {"kind": "optimizer",
     "count": 7, "milliseconds": 0.240992, "dram_gigabytes": 0.59195, "gb_per_second": 2456.3},
    {"kind": "casts, copies and sums",
     "count": 61, "milliseconds": 0.712608, "dram_gigabytes": 0.758521}], "kernels": []},
 "pytorch": null})json";

/// The text with `was` replaced by `now`, once.
inline std::string with(std::string text, const std::string& was, const std::string& now) {
    return text.replace(text.find(was), was.size(), now);
}

}  // namespace testing_support
