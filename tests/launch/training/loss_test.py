"""Tests on which rows heads are trained, and with which targets."""
import pathlib
import sys
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE.parents[2] / 'launch/python'), str(HERE)]
import start  # noqa: F401
from training import python_here

python_here.go_on_or_skip(__file__, ('torch', 'gguf', 'numpy'))
import numpy
import torch

import tiny
from scene import Scene
from training import blocks, features


class Loss(Scene):
    def test_eagle3_learns_only_from_what_the_model_wrote_if_it_wrote_anything(self):
        data = features.Features([self.folder / 'features.safetensors'], [*map(str, tiny.READ), 'last'], tiny.DIM, tiny.VOCABULARY)
        batch, head = data.batch(data.texts[:5]), self.prepared('eagle3', 'loss').head
        for prompts in (batch.lengths - 6, batch.lengths):
            batch.prompts = prompts
            own = (prompts < batch.lengths).any()
            wanted = (batch.hidden['last'] @ head.target.output[head.draft_ids].T).softmax(-1)
            g, past, total = head.start(batch), [], 0.0
            for depth in range(head.unroll):
                rows = batch.own(depth) if own else batch.known(depth)
                g, normed = head.step(g, batch.ahead(batch.ids, depth + 1), past)
                logits = head.lm_head(normed)[rows].log_softmax(-1)
                total = total - 0.8**depth * (batch.ahead(wanted, depth + 1)[rows] * logits).sum(-1).mean()
            self.assertAlmostEqual(head.loss(batch, None).item(), total.item(), places=4)

    def test_targets_of_eagle3_are_not_rounded_to_bfloat16(self):
        data = features.Features([self.folder / 'features.safetensors'], [*map(str, tiny.READ), 'last'], tiny.DIM, tiny.VOCABULARY)
        batch, head, seen = data.batch(data.texts[:5]), self.prepared('eagle3', 'rounded').head, []
        kept = blocks.soft_cross_entropy
        with unittest.mock.patch.object(blocks, 'soft_cross_entropy', lambda logits, wanted: seen.append(wanted) or kept(logits, wanted)):
            head.loss(batch, None)
            with torch.autocast('cpu', torch.bfloat16):
                head.loss(batch, None)
        for exact, made in zip(seen[:3], seen[3:]):
            self.assertTrue(torch.equal(exact, made))

    def test_a_draft_vocabulary_has_what_the_model_wrote(self):
        data = features.Features([self.folder / 'features.safetensors'], ['last'], tiny.DIM, tiny.VOCABULARY)
        (file, first, end, _), ids = data.texts[0], data.files[0]['ids']
        for prompt, begin in ((4, first + 4), (end - first, first), (99, first)):
            counts = data.counts([(file, first, end, prompt)], tiny.VOCABULARY)
            self.assertEqual(counts.tolist(), numpy.bincount(ids[begin:end], minlength=tiny.VOCABULARY).tolist())


if __name__ == '__main__':
    unittest.main()
