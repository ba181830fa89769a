// What tests of NCCL's double include, where they run on GPUs.
#pragma once
